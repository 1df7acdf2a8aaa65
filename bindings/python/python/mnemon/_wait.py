"""Calls that wait, for the event loop that runs: asyncio's, or trio's."""

import asyncio
import functools
import os
import sys
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Workers:
    """Threads for calls, at most 32.

    They are daemons: unlike those of an executor, neither the end of an event loop waits for them nor that of the interpreter, so Ctrl-C
    ends a program whose call does not return.
    """

    LIMIT = 32

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.lock = Lock()
        self.threads = 0
        # Threads that wait for a task, less the tasks that wait for a thread.
        self.idle = 0

    def submit(self, task: Callable[[], None]) -> None:
        with self.lock:
            is_more = self.idle <= 0 and self.threads < self.LIMIT
            if is_more:
                self.threads += 1
            else:
                self.idle -= 1
        self.tasks.put(task)
        if is_more:
            Thread(target=self.run, name="mnemon", daemon=True).start()

    def run(self) -> None:
        while True:
            self.tasks.get()()
            with self.lock:
                self.idle += 1


WORKERS = Workers()
if hasattr(os, "register_at_fork"):
    # The threads are not in the child.
    os.register_at_fork(after_in_child=WORKERS.__init__)  # type: ignore[misc]


async def wait(call: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """Runs `call` on another thread; the event loop goes on meanwhile.

    A cancelled call, also one that Ctrl-C ends, is not waited for. What it does to the database it does to the end.
    """
    work = functools.partial(call, *arguments, **options)
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        result: _T = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        return result
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def task() -> None:
        try:
            result, error = work(), None
        except BaseException as raised:
            result, error = None, raised
            if isinstance(raised, StopIteration):
                # A future takes none, so the call would never return.
                error = RuntimeError("the call raised StopIteration")
                error.__cause__ = raised
        try:
            loop.call_soon_threadsafe(_answer, future, result, error)
        except RuntimeError:
            # The loop is closed: nobody waits.
            pass

    WORKERS.submit(task)
    return await future


def awaited(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """The method of this name, also of a subclass, with `await`."""

    @functools.wraps(method)
    async def call(self: Any, /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        found: _T = await wait(getattr(self, method.__name__), *arguments, **options)
        return found

    return call


async def finish(call: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """`wait` for a change: one that is cancelled is done to its end before the cancellation goes on."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        with trio.CancelScope(shield=True):
            return await wait(call, *arguments, **options)
    task, cancelled = asyncio.ensure_future(wait(call, *arguments, **options)), None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        task.exception()
        raise cancelled
    return task.result()


def _answer(future: "asyncio.Future[_T]", result: _T | None, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)  # type: ignore[arg-type]
    else:
        future.set_exception(error)
