"""Embedders in Python, threads, forks and the end of the interpreter."""

import math
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy
import pytest

import mnemon
from mnemon import Config, Engine, Message

NAMESPACE = "acme/ada"


class Letters:
    """Counts letters."""

    name = "letters"
    dimension = 26

    def embed_documents(self, texts):
        return [self.vector(text) for text in texts]

    def vector(self, text):
        counts = [float(text.lower().count(chr(97 + i))) for i in range(26)]
        length = math.sqrt(sum(x * x for x in counts)) or 1.0
        return [x / length for x in counts]


class Failing(Letters):
    def embed_documents(self, texts):
        raise RuntimeError("the model is on holiday")


def test_an_embedder_in_python_is_called_from_the_threads_of_the_engine() -> None:
    with Engine(embedder=Letters(), config=Config(threads=2)) as engine:
        assert isinstance(Letters(), mnemon.Embedder) and engine.model["name"] == "letters"
        engine.put(NAMESPACE, [Message(f"text {i} {'abc'[i % 3] * 5}") for i in range(200)])
        found, failures = [], []

        def recall() -> None:
            try:
                for _ in range(50):
                    found.append(len(engine.recall(NAMESPACE, "a text with aaaa", k=5)))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=recall) for _ in range(4)]
        for thread in threads:
            thread.start()
        engine.flush()
        for thread in threads:
            thread.join()
        assert not failures and found == [5] * 200


def test_numpy_vectors_are_taken() -> None:

    class Arrays(Letters):
        def embed_documents(self, texts):
            return numpy.array(super().embed_documents(texts), dtype=numpy.float32)

        def embed_query(self, text):
            return numpy.array(self.vector(text), dtype=numpy.float32)

    with Engine(embedder=Arrays()) as engine:
        engine.put(NAMESPACE, [Message("aaa"), Message("bbb")])
        engine.flush()
        hit = engine.recall(NAMESPACE, mnemon.Query("aa", strategy="dense"))[0]
        assert hit.message.text == "aaa" and hit.similarity > 0.99


def test_what_an_embedder_raises_is_the_cause_with_its_traceback() -> None:
    with Engine(embedder=Failing()) as engine:
        engine.put(NAMESPACE, [Message("kept")])
        with pytest.raises(mnemon.EmbeddingError, match="on holiday") as raised:
            engine.flush()
        cause = raised.value.__cause__
        assert isinstance(cause, RuntimeError)
        assert "in embed_documents" in "".join(traceback.format_exception(cause))
        assert engine.pending() == 1


def test_an_object_that_is_no_embedder_is_refused() -> None:
    with pytest.raises(TypeError, match='"name"'):
        Engine(embedder=object())


def test_calls_release_the_gil() -> None:
    """Two threads are in the engine at the same time: one waits in a flush, whose embedder waits for the other."""
    reached, go_on = threading.Event(), threading.Event()

    class Waiting(Letters):
        def embed_documents(self, texts):
            reached.set()
            assert go_on.wait(30)
            return super().embed_documents(texts)

        def embed_query(self, text):
            return self.vector(text)

    with Engine(embedder=Waiting(), config=Config(idle_flush=None)) as engine:
        engine.put(NAMESPACE, [Message("abc")])
        flush = threading.Thread(target=engine.flush)
        flush.start()
        assert reached.wait(30)
        assert engine.pending() == 1 and len(engine.recall(NAMESPACE, "abc")) == 1
        go_on.set()
        flush.join()
        assert engine.pending() == 0


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)


def test_an_interpreter_ends_cleanly_with_work_pending(tmp_path: Path) -> None:
    program = """
import sys, threading, time, mnemon
class Slow:
    name, dimension = "slow", 4
    def embed_documents(self, texts):
        time.sleep(0.2)
        return [[1.0, 0.0, 0.0, 0.0] for _ in texts]
engine = mnemon.Engine(sys.argv[1], embedder=Slow(), config=mnemon.Config(flush_size=10))
memory = engine.memory("n", "s")
def work():
    while True:
        try:
            engine.put("n", [mnemon.Message("x") for _ in range(20)])
        except mnemon.ClosedError:
            return
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
print("done")
"""
    for attempt in range(3):
        result = run(program, str(tmp_path / f"{attempt}.redb"))
        assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
        with Engine(tmp_path / f"{attempt}.redb", embedder=Slow4(), create=False) as engine:
            assert engine.namespaces()[0]["messages"] % 20 == 0


class Slow4:
    name, dimension = "slow", 4

    def embed_documents(self, texts):
        return [[1.0, 0.0, 0.0, 0.0] for _ in texts]


def test_an_engine_is_not_closed_by_what_it_calls_and_may_be_dropped_there(tmp_path: Path) -> None:
    other = [Engine(tmp_path / "other.redb", embedder=Letters())]
    other[0].put(NAMESPACE, [Message("abc")])

    class Closing(Letters):
        def embed_documents(self, texts):
            other.clear()
            with pytest.raises(RuntimeError, match="close it elsewhere"):
                engine.close()
            return super().embed_documents(texts)

    with Engine(embedder=Closing()) as engine:
        engine.put(NAMESPACE, [Message("abc")])
        assert engine.flush() == 1 and not other
    for attempt in range(100):
        try:
            Engine(tmp_path / "other.redb", embedder=Letters()).close()
            break
        except mnemon.DatabaseLockedError:
            time.sleep(0.05)
    else:
        pytest.fail("the dropped engine keeps its file")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_is_refused_with_a_clear_error(tmp_path: Path) -> None:
    program = """
import os, sys, mnemon
engine = mnemon.Engine(sys.argv[1])
memory = engine.memory("n", "s")
child = os.fork()
if child == 0:
    for call in (engine.flush, memory.get):
        try:
            call()
        except RuntimeError as error:
            print(error, flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
engine.put("n", [mnemon.Message("the parent goes on")])
print(os.waitstatus_to_exitcode(status))
"""
    result = run(program, str(tmp_path / "memory.redb"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("forked") == 2 and result.stdout.endswith("\n0\n")


# Threads, an event loop, and everything that may be written in Python, until the interpreter ends in the middle of it.
STRESS = """
import asyncio, math, random, sys, threading, time
import mnemon
from mnemon import AsyncEngine, Engine, Message, Query

class Letters:
    name, dimension = "letters", 26
    def embed_documents(self, texts):
        rows = [[text.lower().count(chr(97 + i)) + 0.1 for i in range(26)] for text in texts]
        return [[x / math.hypot(*row) for x in row] for row in rows]

class Length:
    name = "length"
    def rerank(self, query, passages):
        return [len(passage) for passage in passages]

class Told:
    name = "told"
    def put(self, state, batch):
        return (state or 0) + len(batch.messages)
    def get(self, state, query):
        return f"{state} {[hit.message.text for hit in query.recall('boat', k=2)]}"

def model(request):
    time.sleep(random.random() / 100)
    return '{"name": "Ada"}'

engine = Engine(sys.argv[1], embedder=Letters(), reranker=Length(), config=mnemon.Config(flush_size=16))
profile = mnemon.Profile(engine, "n")
acknowledged = open(sys.argv[2], "a", buffering=1)

def put():
    for number in range(10**6):
        id = f"{threading.get_ident()}-{number}"
        engine.put("n", [Message(f"boat {number}", id=id)])
        acknowledged.write(id + "\\n")

def recall():
    while True:
        list(engine.recall("n", Query("boat", rerank=5)))

def talk():
    name = f"s{threading.get_ident()}"
    blocks = [Told(), mnemon.ProfileBlock("profile", profile, model)]
    memory = engine.memory("n", name, blocks=blocks, tokens=len, token_limit=2000, token_flush_size=100)
    while True:
        memory.put([Message("a boat " * 9), Message("yes", "assistant")])
        memory.assemble(Message("which boat?"))

async def loop():
    client = AsyncEngine(engine)
    while True:
        await asyncio.gather(*(client.recall("n", "boat") for _ in range(8)), client.put("n", [Message("more boats")]))

def guarded(work):
    try:
        work()
    except mnemon.ClosedError:
        pass

for work in [put, put, recall, recall, talk, talk, lambda: asyncio.run(loop())]:
    threading.Thread(target=guarded, args=(work,), daemon=True).start()
time.sleep(float(sys.argv[3]))
print("done")
"""


def test_an_interpreter_ends_in_the_middle_of_everything(tmp_path: Path) -> None:
    for round in range(int(os.environ.get("MNEMON_STRESS_ROUNDS", "3"))):
        path, log = tmp_path / f"{round}.redb", tmp_path / f"{round}.log"
        result = run(STRESS, str(path), str(log), str(0.6 + round % 5 / 3))
        assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
        # The event loop's thread may tell that it was cut off.
        assert "panicked" not in result.stderr and "Fatal" not in result.stderr
        ids = log.read_text().split()
        with Engine(path, embedder=Letters(), create=False) as engine:
            assert len(ids) > 10 and all(engine.get("n", id) for id in ids)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_was_forked_in_a_callback_ends(tmp_path: Path) -> None:
    program = """
import os, sys, threading, mnemon
reached, go_on = threading.Event(), threading.Event()
class Waiting:
    name, dimension = "waiting", 2
    def embed_documents(self, texts):
        reached.set()
        go_on.wait(30)
        return [[1.0, 0.0] for _ in texts]
engine = mnemon.Engine(sys.argv[1], embedder=Waiting())
engine.put("n", [mnemon.Message("x")])
flush = threading.Thread(target=engine.flush)
flush.start()
reached.wait()
child = os.fork()
if child == 0:
    with mnemon.Engine() as own:
        own.put("n", [mnemon.Message("the child has an engine of its own")])
        own.flush()
    sys.exit(0)
_, status = os.waitpid(child, 0)
go_on.set()
flush.join()
print(os.waitstatus_to_exitcode(status))
"""
    result = run(program, str(tmp_path / "memory.redb"))
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr
