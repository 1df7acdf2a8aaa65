"""The matrix for Python: each operation on each kind of database, alone and two at once, compared with one model.

The operations and the model's answers are in `tests/it/matrix/operations.jsonl`, which a test of the crate keeps up to date. An
operation is a generator here that yields calls: `Engine` returns their results, `AsyncEngine` awaitables.
"""

import asyncio
import itertools
import json
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mnemon
from mnemon import AsyncEngine, Config, Engine, Message

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "tests/it/matrix/operations.jsonl").read_text().splitlines()
]
KEY = bytes(range(32))
FILES = itertools.count()
REFUSALS = {
    "read-only": mnemon.ReadOnlyError,
    "legal-hold": mnemon.LegalHoldError,
    "exists": (mnemon.SessionExistsError, mnemon.NamespaceNotEmptyError, mnemon.PathExistsError, mnemon.ReindexRunningError),
    "not-found": (mnemon.SessionNotFoundError, mnemon.NoPreviousError, mnemon.CheckpointNotFoundError),
}
Step = Generator[Any, Any, Any]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def message(argument: dict[str, str]) -> Message:
    return Message(argument["content"], argument["role"], id=argument["id"], session=argument["session"])


def exported(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    found = [line.get("message", line) for line in lines]
    return sorted(line["content"] for line in found if "role" in line)


def open_copy(path: Path) -> Engine:
    try:
        return Engine(path, read_only=True)
    except mnemon.KeyNeededError:
        return Engine(path, config=Config(encryption_key=KEY), read_only=True)


class Operations:
    """The operations by their names, in one namespace."""

    def __init__(self, engine: Any, space: str, folder: Path) -> None:
        self.engine, self.space, self.folder = engine, space, folder

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.space.replace('/', '-')}-{next(FILES)}.{kind}"

    def memory(self, session: str) -> Any:
        return self.engine.memory(self.space, session)

    def get(self, id: str) -> Step:
        found = yield self.engine.get(self.space, id)
        assert len((yield self.engine.vectors(self.space, [id]))) == 1
        return found and found.text

    def history(self, session: str) -> Step:
        found = yield self.engine.history(self.space, session)
        assert (yield self.engine.history(self.space, session, limit=2)) == found[-2:]
        memory = yield self.memory(session)
        assert texts((yield memory.history())) == texts(found)
        yield memory.messages()
        return texts(found)

    def sessions(self, _: None) -> Step:
        return [found["session"] for found in (yield self.engine.sessions(self.space))]

    def namespaces(self, _: None) -> Step:
        return sum(found["messages"] for found in (yield self.engine.namespaces(self.space)))

    def recall(self, question: str) -> Step:
        hits = yield self.engine.recall(self.space, question, k=1)
        memory = yield self.memory("monday")
        yield memory.search(question)
        return hits[0].message.text if len(hits) else None

    def recall_several(self, question: str) -> Step:
        hits = yield self.engine.recall_in(question, under=[self.space], namespaces=["nobody/here"], k=1)
        return hits[0].message.text if len(hits) else None

    def assemble(self, argument: dict[str, str]) -> Step:
        memory = yield self.memory(argument["session"])
        prompt = yield memory.assemble(Message(argument["prompt"]))
        yield memory.get()
        return any("I moved my rowing lesson to Thursday morning." in found.text for found in prompt.messages)

    def document_get(self, key: str) -> Step:
        found = yield self.engine.documents(self.space).get(key)
        return found and found.value

    def document_search(self, query: str) -> Step:
        found = yield self.engine.documents(self.space).search(query)
        yield self.engine.document_batch([])
        return [document.key for document in found]

    def blocks(self, _: None) -> Step:
        memory = yield self.memory("monday")
        yield memory.status()
        return (yield self.engine.blocks(self.space))

    def holds(self, _: None) -> Step:
        return any(hold["namespace"] == self.space for hold in (yield self.engine.holds()))

    def journal(self, _: None) -> Step:
        return (yield self.engine.journal(self.space))

    def export(self, _: None) -> Step:
        path = self.file("jsonl")
        yield self.engine.export(path, self.space)
        return exported(path)

    def audit(self, _: None) -> Step:
        assert (yield self.engine.audit())["problems"] == []

    def stats(self, _: None) -> Step:
        yield self.engine.stats()
        yield self.engine.pending()

    def put(self, argument: dict[str, str]) -> Step:
        yield self.engine.put(self.space, [message(argument)])

    def import_files(self, argument: dict[str, str]) -> Step:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps(argument))
            file.flush()
            yield self.engine.import_files(file.name, namespace=self.space)

    def put_session(self, argument: dict[str, str]) -> Step:
        memory = yield self.memory(argument["session"])
        yield memory.put([message(argument)])

    def sync(self, argument: dict[str, str]) -> Step:
        memory = yield self.memory(argument["session"])
        chat = [found for found in (yield memory.history()) if found.id != argument["id"]]
        yield memory.sync([*chat, message(argument)])

    def update_text(self, argument: dict[str, str]) -> Step:
        found = yield self.engine.get(self.space, argument["id"])
        if found is None:
            return False
        yield self.engine.put_all([(self.space, found.to_dict() | {"content": argument["content"]})])
        return True

    def set_metadata(self, argument: dict[str, str]) -> Step:
        return (yield self.engine.set_metadata(self.space, argument["id"], {"topic": argument["topic"]}))

    def delete(self, id: str) -> Step:
        return (yield self.engine.delete(self.space, [id]))

    def delete_session(self, session: str) -> Step:
        yield self.engine.delete_session(self.space, session)

    def delete_namespace(self, _: None) -> Step:
        yield self.engine.delete_namespace(self.space)

    def delete_prefix(self, _: None) -> Step:
        yield self.engine.delete_namespaces(self.space)

    def forget(self, what: dict[str, Any]) -> Step:
        options = {name: what[name] for name in ("ids", "keys", "session") if name in what}
        if "filter" in what:
            options["where"] = what["filter"]
        receipt = yield self.engine.forget(self.space, **options)
        counts = receipt["event"]["forgotten"]
        return counts["messages"] + counts["documents"]

    def document_put(self, argument: dict[str, Any]) -> Step:
        yield self.engine.documents(self.space).put(argument["key"], argument["value"])

    def document_delete(self, key: str) -> Step:
        return None if (yield self.engine.documents(self.space).delete(key)) else False

    def copy_session(self, argument: dict[str, str]) -> Step:
        yield self.engine.copy_session(self.space, argument["from"], argument["to"])

    def fork(self, argument: dict[str, str]) -> Step:
        memory = yield self.memory(argument["from"])
        yield memory.fork(argument["to"])

    def clear(self, session: str) -> Step:
        memory = yield self.memory(session)
        return (yield memory.clear())

    def checkpoint(self, session: str) -> Step:
        memory = yield self.memory(session)
        number = yield memory.checkpoint("now")
        assert (yield memory.checkpoints())
        yield memory.messages_at(number)

    def flush_session(self, session: str) -> Step:
        memory = yield self.memory(session)
        yield memory.flush()
        yield memory.settle()

    def hold(self, reason: str) -> Step:
        yield self.engine.hold(self.space, reason)

    def release(self, _: None) -> Step:
        return None if (yield self.engine.release(self.space)) else False

    def set_ttl(self, minutes: float) -> Step:
        yield self.engine.set_ttl(self.space, minutes)

    def set_language(self, language: str) -> Step:
        yield self.engine.set_language(self.space, language)

    def flush(self, _: None) -> Step:
        yield self.engine.flush()

    def link(self, _: None) -> Step:
        yield self.engine.link()

    def backup(self, _: None) -> Step:
        path = self.folder / f"backup-{self.space.replace('/', '-')}.redb"
        yield self.engine.backup(path)
        with open_copy(path) as copy:
            found = [copy.history(self.space, session["session"]) for session in copy.sessions(self.space)]
        return sorted(text for messages in found for text in texts(messages))

    def purge(self, _: None) -> Step:
        yield self.engine.purge()

    def drop_previous(self, _: None) -> Step:
        yield self.engine.drop_previous()


# Operations of the table that Python has no method for, or that another test has.
LEFT_OUT = {
    "index_stats": "the library's",
    "import": "a file of the crate's test; `test_engine`",
    "verify": "the command's",
    "reindex": "needs an embedder; `test_models`",
    "rollback": "needs an embedder; `test_models`",
}
# Methods of the engine, its documents and its memories that no operation calls.
METHODS_LEFT_OUT = {
    "close", "model", "reopen",  # The cells' beginning and end.
    "embed_documents", "embed_query", "replay", "versions", "import_from", "reindex", "rollback",  # `test_engine`, `test_models`.
    "namespace", "set", "reset", "restore", "retry_failed", "block_state", "change_block",  # `test_memory`.
    "add_step", "steps",  # `test_memory`.
    "anchor",  # `test_engine`.
}


def refusal(error: mnemon.MnemonError) -> dict[str, Any]:
    names = [name for name, kinds in REFUSALS.items() if isinstance(error, kinds)]
    return {"refused": names[0] if names else repr(error)}


def answer(outcome: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"value": outcome()}
    except mnemon.MnemonError as error:
        return refusal(error)


def run(step: Step) -> Any:
    """Runs an operation whose calls return their results."""
    try:
        call = next(step)
        while True:
            call = step.send(call)
    except StopIteration as end:
        return end.value


async def run_async(step: Step) -> Any:
    """Runs an operation whose calls return awaitables, or are ready."""

    async def result(call: Any) -> Any:
        return await call if hasattr(call, "__await__") else call

    try:
        call = await result(next(step))
        while True:
            call = await result(step.send(call))
    except StopIteration as end:
        return end.value


async def twice_at_once(*steps: Step) -> list[dict[str, Any]]:
    async def one(step: Step) -> dict[str, Any]:
        try:
            value = await run_async(step)
        except mnemon.MnemonError as error:
            return refusal(error)
        return {"value": value}

    return await asyncio.gather(*map(one, steps))


def is_nothing(given: dict[str, Any]) -> bool:
    return given.get("refused") == "not-found" or "value" in given and not given["value"]


def agree(given: dict[str, Any], expected: dict[str, Any]) -> bool:
    return given == expected or is_nothing(given) and is_nothing(expected)


def fill(engine: Engine, space: str, held: bool, model: dict[str, Any]) -> None:
    messages = [
        Message(stored["text"], stored["role"], id=stored["id"], session=session)
        for session, found in model["sessions"].items()
        for stored in found
    ]
    if messages:
        engine.put(space, messages)
    for key, value in model["documents"].items():
        engine.documents(space).put(key, value)
    if held:
        engine.hold(space, "a lawsuit")


def read(engine: Engine, space: str) -> dict[str, Any]:
    def stored(found: Message) -> dict[str, Any]:
        return {"role": found.role, "text": found.text, "topic": found.metadata.get("topic")}

    sessions = {
        session["session"]: [stored(found) for found in engine.history(space, session["session"])]
        for session in engine.sessions(space)
    }
    documents = {found.key: found.value for found in engine.documents(space).search()}
    return {"sessions": sessions, "documents": documents, "held": any(hold["namespace"] == space for hold in engine.holds())}


def without_ids(model: dict[str, Any]) -> dict[str, Any]:
    """Copies have ids of their own."""
    sessions = {
        session: [{name: stored[name] for name in ("role", "text", "topic")} for stored in found]
        for session, found in model["sessions"].items()
    }
    return model | {"sessions": sessions}


KINDS = ["new", "plain", "encrypted", "memory", "read_only"]


@pytest.mark.parametrize("surface", ["sync", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_does_what_the_model_does(tmp_path: Path, surface: str, kind: str) -> None:
    path = None if kind == "memory" else tmp_path / "memory.redb"
    config = Config(encryption_key=KEY if kind == "encrypted" else None, drain_on_open=False)
    state = "new" if kind == "new" else "filled"
    rows = [
        row for row in ROWS
        if hasattr(Operations, row["action"]) and not (kind == "new" and (row["held"] or row["whole"]))
        and not (kind in ("read_only", "memory") and row["whole"])
    ]
    spaces = [(row, f"users/once{i}", f"users/twice{i}") for i, row in enumerate(rows)]

    def fill_all(engine: Engine) -> None:
        for row, *both in spaces:
            for space in both:
                fill(engine, space, row["held"], row[state]["before"])

    if kind in ("plain", "encrypted", "read_only"):
        with Engine(path, config=config) as engine:
            fill_all(engine)
    engine = Engine(path, config=config, read_only=kind == "read_only")
    if kind == "memory":
        fill_all(engine)
    handle = AsyncEngine(engine) if surface == "async" else engine
    problems = []
    for row, once, twice in spaces:
        expected = row[state]
        first, second = expected["first"], expected["second"]
        if kind == "read_only" and row["changes"]:
            first = second = {"refused": "read-only"}
        # Which of two reasons is found first is not promised.
        allowed = [{"refused": "legal-hold"}] if row["held"] and "refused" in first else []

        def start(space: str, row: dict[str, Any] = row) -> Step:
            operations = Operations(handle, space, tmp_path)
            return getattr(operations, row["action"])(row["argument"])

        if surface == "sync":
            given = answer(lambda: run(start(once)))
            with ThreadPoolExecutor(2) as pool:
                pair = [answer(one.result) for one in [pool.submit(run, start(twice)) for _ in range(2)]]
        else:
            given = answer(lambda: asyncio.run(run_async(start(once))))
            pair = asyncio.run(twice_at_once(start(twice), start(twice)))
        name = f"{row['action']} {row['argument']}"
        if not (agree(given, first) or given in allowed):
            problems.append(f"{name} returns {given} instead of {first}")
        others = [second, *allowed, *([{"refused": "exists"}] if row["whole"] else [])]

        def fits(one: dict[str, Any], other: dict[str, Any]) -> bool:
            return (agree(one, first) or one in allowed) and any(agree(other, each) for each in others)

        if not (fits(*pair) or fits(*reversed(pair))):
            problems.append(f"{name} twice at once returns {pair} instead of {first} and {second}")
    if kind != "memory":
        engine.close()
        engine = Engine(path, config=config)
    for row, *both in spaces:
        left = row[state]["before"] if kind == "read_only" and row["changes"] else row[state]["after"]
        for space in both:
            found = read(engine, space)
            if found != without_ids(left):
                problems.append(f"after {row['action']} {row['argument']} in {space} there is {found} instead of {left}")
    engine.close()
    assert not problems, "\n".join(problems)


def test_nothing_is_without_a_row() -> None:
    actions = {row["action"] for row in ROWS}
    done = {name for name in vars(Operations) if not name.startswith("_")} - {"file", "memory"}
    assert actions == done | LEFT_OUT.keys()
    source = Path(__file__).read_text()
    for kind in (Engine, mnemon.Documents, mnemon.Memory):
        for method in vars(kind):
            called = f".{method}(" in source
            assert method.startswith("_") or called or method in METHODS_LEFT_OUT, f"{kind.__name__}.{method}"
