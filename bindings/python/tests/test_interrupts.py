"""Ctrl-C, calls that would wait for themselves, cycles, and the end of the interpreter beside what does not return."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import asyncio, gc, os, signal, sys, threading, time, weakref
import mnemon
from mnemon import AsyncEngine, Config, Engine, Message

# A shell has the signal ignored by what it runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

PATH = sys.argv[1]
# What the engine calls waits for this, and nothing sets it before the call is over: a call that waits for what it calls does not return.
reached, released, expired = threading.Event(), threading.Event(), threading.Event()
blocking = False

def wait():
    if blocking:
        reached.set()
        if not released.wait(40):
            expired.set()
            raise TimeoutError

class Embedder:
    name, dimension = "two", 2
    def embed_documents(self, texts):
        wait()
        return [[1.0, 0.0] for _ in texts]

class Other(Embedder):
    name = "other"

class Block:
    name = "block"
    def put(self, state, batch):
        wait()
        return (state or 0) + len(batch.messages)
    def get(self, state, query):
        return str(state)

def chat(request):
    wait()
    return "{}"

def count(text):
    wait()
    return len(text)

def kill():
    assert reached.wait(40)
    # The call that waits has begun when the last thread that it needs has; a little later it waits, whatever it is.
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(call):
    global blocking
    blocking = True
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        call()
        print("returned")
    except KeyboardInterrupt:
        print("too late" if expired.is_set() else "interrupted")
    except BaseException as error:
        print(type(error).__name__)
    # Python may handle the signal only now.
    try:
        killer.join()
        time.sleep(0.1)
    except KeyboardInterrupt:
        print("late")
    blocking = False
    released.set()

def opened(**options):
    return Engine(PATH, embedder=Embedder(), config=Config(idle_flush=None, flush_size=10_000, embedding_cache=0), **options)
"""

# The calls, in a program with an engine and messages that are not embedded yet.
CALLS = {
    "flush": "engine.flush()",
    "recall": "engine.recall('n', 'a question')",
    "recall_in": "engine.recall_in('a question', namespaces=['n'])",
    "embed_documents": "engine.embed_documents(['a text'])",
    "embed_query": "engine.embed_query('a text')",
    "reindex": "engine.reindex(Other(), samples=0)",
    "documents": "engine.documents('n').search('a question')",
    "batch": "engine.document_batch([mnemon.DocumentOperation.search('n', 'a question')])",
    "memory": "engine.memory('n', 't', tokens=count).put([Message('a word')])",
    "assemble": "memory.assemble(Message('a question'))",
    "search": "(memory.put([Message('hello')]), memory.search('a question'))",
    "settle": "(memory.put([Message('hello'), Message('hi', 'assistant')]), memory.flush(), memory.settle())",
    "change_block": "memory.change_block('block', lambda state: wait())",
    "profile": "mnemon.Profile(engine, 'n').update([Message('hello')], chat)",
    "collection": "mnemon.Collection(engine, 'n/facts').update([Message('hello')], chat)",
    "close": "(threading.Thread(target=engine.flush).start(), reached.wait(40), engine.close())",
    "async flush": "asyncio.run(AsyncEngine(engine).flush())",
    "async recall": "asyncio.run(AsyncEngine(engine).recall('n', 'a question'))",
}


def run(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + program, path], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call_that_waits_and_nothing_is_lost(call: str, tmp_path: Path) -> None:
    program = f"""
engine = opened()
engine.put("n", [Message(f"text {{i}}") for i in range(300)])
engine.documents("n").put("key", {{"text": "a value"}})
memory = engine.memory("n", "s", blocks=[Block()])
interrupted(lambda: {CALLS[call]})
engine.close()
engine = opened(create=False)
engine.flush()
print(engine.pending(), sum("text" in message.text for message in engine.history("n", "default")))
print(engine.documents("n").get("key").value["text"], len(engine.recall("n", "text", k=5)))
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("interrupted\n0 300\na value 5\n", 0), result.stderr


def test_ctrl_c_ends_the_export_and_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    program = """
engine = opened()
engine.put("n", [Message("a text " * 20) for i in range(60_000)])
old = signal.getsignal(signal.SIGINT)
for attempt in range(100):
    killer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    killer.start()
    try:
        engine.export(PATH + ".jsonl")
        os.remove(PATH + ".jsonl")
        killer.cancel()
    except KeyboardInterrupt:
        print("interrupted", os.path.exists(PATH + ".jsonl"))
        break
killer.join()
print(engine.export(PATH + ".jsonl")["messages"])
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("interrupted False\n60000\n", 0), result.stderr


def test_an_interrupted_reindex_stops_and_a_later_one_goes_on(tmp_path: Path) -> None:
    program = """
engine = opened()
engine.put("n", [Message(f"text {i}") for i in range(300)])
engine.flush()
interrupted(lambda: engine.reindex(Other(), samples=0))
print(engine.model["name"])
for attempt in range(400):
    try:
        print(engine.reindex(Other(), samples=0)["switched"], engine.model["name"])
        break
    except mnemon.ReindexRunningError:
        time.sleep(0.05)
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("interrupted\ntwo\nTrue other\n", 0), result.stderr


def test_what_ends_a_program_is_raised_as_it_is(tmp_path: Path) -> None:
    program = """
class Ending(Embedder):
    def embed_documents(self, texts):
        sys.exit(7)
engine = Engine(embedder=Ending())
engine.put("n", [Message("a text")])
for call in (engine.flush, lambda: engine.recall("n", "a question")):
    try:
        call()
    except SystemExit as error:
        print(error.code)
def counted(text):
    raise KeyboardInterrupt
try:
    engine.memory("n", "s", tokens=counted).put([Message("a text")])
except KeyboardInterrupt:
    print("interrupt")
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("7\n7\ninterrupt\n", 0), result.stderr


def test_a_call_that_would_wait_for_itself_is_an_error(tmp_path: Path) -> None:
    program = """
raised = []
def tried(*calls):
    for call in calls:
        try:
            call()
            raised.append("returned")
        except RuntimeError as error:
            raised.append("was called by it" in str(error))
class Waiting(Embedder):
    def embed_documents(self, texts):
        if not raised:
            tried(engine.flush, lambda: engine.forget("n", ids=["m"]), lambda: engine.reindex(Other()), lambda: engine.set_language("n", "German"),
                  memory.settle)
        # Another engine's embedder is another one.
        other.put("n", [Message("a text")])
        assert other.flush() == 1
        return super().embed_documents(texts)
class Settling(Block):
    def put(self, state, batch):
        tried(memory.settle)
        return 1
other = Engine(embedder=Embedder())
engine = Engine(PATH, embedder=Waiting(), config=Config(idle_flush=None))
memory = engine.memory("n", "s", blocks=[Settling()])
engine.put("n", [Message("a text")])
print(engine.flush(), raised)
raised.clear()
memory.put([Message("hello"), Message("hi", "assistant")])
memory.flush()
raised.append("begun")
memory.settle()
print(raised)
"""
    result = run(program, tmp_path / "memory.redb")
    wanted = "1 [True, True, True, True, True]\n['begun', True]\n"
    assert (result.stdout.replace("[True, 'begun']", "['begun', True]"), result.returncode) == (wanted, 0), result.stderr


def test_an_engine_and_what_it_calls_in_a_cycle_are_collected(tmp_path: Path) -> None:
    program = """
class Reranker:
    name = "length"
    def rerank(self, query, passages):
        return [len(passage) for passage in passages]
class Slots(Embedder):
    # No weak references lead to it.
    __slots__ = ("engine", "pending")
def cycle(embedder, reranker):
    engine = Engine(PATH, embedder=embedder, reranker=reranker, config=Config(idle_flush=None))
    embedder.engine = reranker.engine = engine
    engine.put("n", [Message("a text")])
    engine.flush()
    assert len(engine.recall("n", mnemon.Query("a question", rerank=3), k=1)) == 1
    other = Other()
    other.engine = engine
    engine.reindex(other, samples=0)
    engine.reindex(embedder, samples=0)
    return [weakref.ref(one) for one in (embedder, reranker, other)]
gc.disable()
for attempt in range(20):
    left = cycle(Embedder(), Reranker())
    assert all(one() is not None for one in left)
    gc.collect()
    assert all(one() is None for one in left), left
    # The file is closed, too.
    Engine(PATH, embedder=Embedder()).close()
# An engine in use is not collected, nor is what it calls.
engine = Engine(PATH, embedder=Embedder(), reranker=Reranker())
gc.collect()
engine.put("n", [Message("another text")])
assert engine.flush() == 1 and len(engine.recall("n", mnemon.Query("a question", rerank=3), k=1)) == 1
print("collected")
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("collected\n", 0), result.stderr


def test_a_session_and_what_it_calls_in_a_cycle_are_collected(tmp_path: Path) -> None:
    program = """
class Agent(Block):
    def __init__(self):
        self.engine = Engine(PATH, embedder=Embedder(), config=Config(idle_flush=None))
        self.facts = mnemon.FactBlock("facts", self.ask)
        blocks = [self, self.facts, mnemon.VectorBlock("found", process=self.process)]
        self.asked = self.processed = self.counted = 0
        self.memory = self.engine.memory("n", "s", blocks=blocks, tokens=self.count)
    def ask(self, request):
        self.asked += 1
        return '{"facts": ["Ada rows."]}'
    def process(self, hits):
        self.processed += 1
        return hits
    def count(self, text):
        self.counted += 1
        return len(text)
def use():
    agent = Agent()
    gc.collect()
    agent.memory.put([Message("hello"), Message("hi", "assistant")])
    agent.memory.flush()
    agent.memory.settle()
    assert "Ada rows." in agent.memory.get(Message("hello")).messages[0].text
    assert agent.asked and agent.processed and agent.counted and not any(status["failed"] for status in agent.memory.status())
    return weakref.ref(agent)
gc.disable()
for attempt in range(10):
    agent = use()
    gc.collect()
    assert agent() is None
    Engine(PATH, embedder=Embedder()).close()
print("collected")
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("collected\n", 0), result.stderr


def test_what_a_dropped_session_has_begun_goes_on(tmp_path: Path) -> None:
    program = """
engine = opened()
memory = engine.memory("n", "s", blocks=[Block(), mnemon.SummaryBlock("summary", lambda request: (wait(), "a summary")[1])])
blocking = True
memory.put([Message("hello"), Message("hi", "assistant")])
memory.flush()
assert reached.wait(40)
del memory
gc.collect()
blocking = False
released.set()
for attempt in range(800):
    made = {block["name"]: block["state"] for block in engine.blocks("n") if block["state"]}
    if len(made) == 2:
        print("made")
        break
    time.sleep(0.05)
else:
    print(engine.blocks("n"))
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("made\n", 0), result.stderr


@pytest.mark.parametrize("blocked", ["engine.flush()", "memory.settle()", "chat_update()"])
def test_what_does_not_return_does_not_keep_the_interpreter_from_ending(blocked: str, tmp_path: Path) -> None:
    program = f"""
engine = opened()
engine.put("n", [Message(f"text {{i}}") for i in range(300)])
memory = engine.memory("n", "s", blocks=[Block()])
memory.put([Message("hello"), Message("hi", "assistant")])
memory.flush()
def chat_update():
    mnemon.Profile(engine, "n").update([Message("hello")], chat)
blocking = True
# For ever.
released.wait = lambda timeout: threading.Event().wait()
threading.Thread(target=lambda: {blocked}, daemon=True).start()
assert reached.wait(40)
print("ends", flush=True)
"""
    result = run(program, tmp_path / "memory.redb")
    assert (result.stdout, result.returncode) == ("ends\n", 0), result.stderr
    assert "did not return within 5 seconds" in result.stderr
    again = run("engine = opened(create=False)\nengine.flush()\nprint(len(engine.history('n', 'default')))", tmp_path / "memory.redb")
    assert again.stdout == "300\n", again.stderr
