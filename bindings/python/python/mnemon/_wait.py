"""Calls that wait, for the event loop that runs: asyncio's, or trio's."""

import asyncio
import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def wait(call: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """Runs `call` on another thread; the event loop goes on meanwhile.

    A cancelled call is not waited for. What it does to the database it does to the end.
    """
    work = functools.partial(call, *arguments, **options)
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        result: _T = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        return result
    return await asyncio.get_running_loop().run_in_executor(None, work)
