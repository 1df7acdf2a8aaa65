"""Agno's database on an engine. Needs the package `agno`."""

import functools
import inspect
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ._adapters import needs, turn_of
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message
from ._values import ALL, Head, Place, deletes, key_of, puts, read, space_of
from ._wait import finish

with needs("mnemon.agno", "agno", "agno"):
    from agno.db.base import AsyncBaseDb
    from agno.db.in_memory import InMemoryDb
    from agno.utils.dttm import to_epoch_s

KEY = "agno"
# What is done in Agno's database in memory, over the rows of a table.
METHODS = {
    "sessions": "get_session get_sessions upsert_session upsert_sessions rename_session delete_session delete_sessions get_run get_runs "
    "upsert_run delete_run delete_runs",
    "metrics": "calculate_metrics get_metrics",
    "memories": "get_user_memory get_user_memories get_all_memory_topics get_user_memory_stats upsert_user_memory upsert_memories "
    "clear_memories delete_user_memory delete_user_memories",
    "knowledge": "get_knowledge_content get_knowledge_contents upsert_knowledge_content delete_knowledge_content",
    "eval_runs": "get_eval_run get_eval_runs create_eval_run rename_eval_run update_eval_run_user_id delete_eval_runs",
}
# The field that is a row's id in the tables that are lists.
IDS = {"memories": "memory_id", "knowledge": "id", "eval_runs": "run_id", "metrics": "id"}
# A row's document and its JSON, by its place.
Stored = dict[Place, tuple[Head, str]]


class Row(NamedTuple):
    """A row as it is to be stored: its place, its JSON, the fields beside that, and the texts that recalls find, with who said them."""

    place: Place
    text: str
    fields: dict[str, Any]
    said: list[tuple[Any, str]]
    created_at: Any


def _stored(table: str, name: str) -> Any:
    """A method of the database in memory, over the stored rows."""
    method = getattr(InMemoryDb, name)
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(db: "MnemonDb", *given: Any, **named: Any) -> Any:
        return db._run(table, method, signature.bind(db, *given, **named).arguments, given, named)

    return call


def _awaited(name: str) -> Any:
    @functools.wraps(getattr(InMemoryDb, name))
    async def call(db: "MnemonAsyncDb", *given: Any, **named: Any) -> Any:
        return await finish(getattr(db.db, name), *given, **named)

    return call


NAMES = [(table, name) for table, names in METHODS.items() for name in names.split()]
Db: Any = type("Db", (InMemoryDb,), {name: _stored(table, name) for table, name in NAMES})
AWAITED = {*AsyncBaseDb.__abstractmethods__, *(name for _, name in NAMES)}
AsyncDb: Any = type("AsyncDb", (AsyncBaseDb,), {name: _awaited(name) for name in AWAITED})


class MnemonDb(Db):  # type: ignore[misc]
    """The database of Agno's agents, teams and workflows, in a namespace and those below it: `Agent(db=MnemonDb(engine, "acme/agents"))`.

    It has what Agno's `InMemoryDb` has, whose code it runs: sessions and their runs, user memories, knowledge, evaluations, metrics; no
    traces and no learnings, which raise `NotImplementedError`. Rows are documents, of any size, and a call that changes some is one commit.

    Input and content of each run, and each user memory, are messages too, which recalls find in the user's own namespace:
    `engine.recall(db.space("ada"), "When does she row?")`. A session id has at most 512 bytes, and such a text at most 1 MiB.

    Calls may come from any thread. Cost: a call about one session reads that session with its runs, one about a user's memories these
    memories, and others all rows of the table.
    """

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, *, id: str | None = None) -> None:
        super().__init__()
        self.engine = engine_of(engine)
        self.namespace = namespace
        self.id = id or f"mnemon {namespace}"

    def space(self, user_id: str | None) -> str:
        """The namespace of a user's memories, and of the messages of the runs."""
        return self._below("users", user_id)

    def _below(self, table: str, label: str | None) -> str:
        return f"{self.namespace}/{table}" + (f"/{space_of(label)}" if label else "")

    def _run(self, table: str, method: Callable[..., Any], about: dict[str, Any], given: Any, named: Any) -> Any:
        session = about.get("session_id") or getattr(about.get("session"), "session_id", None)
        user = about.get("user_id") or getattr(about.get("memory"), "user_id", None)
        with turn_of(self.namespace, KEY):
            copy, stored = InMemoryDb(), Stored()  # type: ignore[no-untyped-call]
            if table in ("sessions", "metrics"):
                self._load(copy, stored, "sessions", self._below("sessions", session))
            if table != "sessions":
                self._load(copy, stored, table, self._below("users", user) if table == "memories" else self._below(table, None))
            result = method(copy, *given, **named)
            self._save(list(self._rows(copy, stored)), stored)
        return result

    def _load(self, copy: Any, stored: Stored, table: str, namespace: str) -> None:
        """Puts the rows of a table that are in a namespace or below it into the copy."""
        found = self.engine.documents(namespace).search(where={KEY: table}, below=True, limit=ALL)
        for one in sorted(found, key=lambda one: int(one.value["at"])):
            place, head = (one.namespace, one.key), one.value
            text: Any = head["text"] if "text" in head else read(self.engine, [place])[1][0]
            stored[place], row = (head, text), json.loads(text)
            if table != "sessions":
                getattr(copy, f"_{table}").append(row)
            elif head["at"] < 0:
                # Sessions come before runs.
                copy._sessions[row["session_id"]] = row
            elif session := copy._sessions.get(head["session"]):
                session["runs"] = session["runs"] or []
                session["runs"].append(row)

    def _rows(self, copy: Any, stored: Stored) -> Iterator[Row]:
        for id, session in copy._sessions.items():
            namespace, at, space = self._below("sessions", id), -1, self.space(session.get("user_id"))
            yield Row((namespace, "session"), _json({**session, "runs": None}), {KEY: "sessions", "at": at}, [], None)
            for run in session["runs"] or []:
                place = (namespace, key_of("run", run["run_id"]))
                at = stored[place][0]["at"] if place in stored else at + 1
                texts = [("user", (run.get("input") or {}).get("input_content")), ("assistant", run.get("content"))]
                fields = {KEY: "sessions", "at": at, "session": id, "space": space}
                yield Row(place, _json(run), fields, [(role, text) for role, text in texts if _is_said(text)], run.get("created_at"))
        for table, name in IDS.items():
            at, is_memory = -1, table == "memories"
            for row in getattr(copy, f"_{table}"):
                space = self.space(row.get("user_id")) if is_memory else self._below(table, None)
                place = (space, key_of(table, row[name]))
                at = stored[place][0]["at"] if place in stored else at + 1
                fields = {KEY: table, "at": at, "session": "memories", "space": space}
                said = [("user", row["memory"])] if is_memory and _is_said(row["memory"]) else []
                yield Row(place, _json(row), fields, said, row.get("created_at"))

    def _save(self, rows: list[Row], stored: Stored) -> None:
        """Stores what differs, and deletes what is left over. A crash between the commits leaves messages that the next change replaces."""
        changes: list[DocumentOperation] = []
        messages: list[tuple[str, Message]] = []
        # The messages that were found, and those that still are.
        old, new = set(), set()
        for row in rows:
            head, text = stored.pop(row.place, (None, ""))
            if text == row.text and head and head.get("space") == row.fields.get("space"):
                continue
            ids = [key_of(KEY, *row.place, role) for role, _ in row.said]
            old |= _messages(head)
            new |= {(row.fields["space"], id) for id in ids}
            messages += [(row.fields["space"], _message(row, id, *said)) for id, said in zip(ids, row.said, strict=True)]
            changes += puts(row.place, row.text, head, **row.fields, messages=ids)
        for place, (head, _) in stored.items():
            old |= _messages(head)
            changes += deletes(place, head)
        if messages:
            self.engine.put_all(messages)
        if changes:
            self.engine.document_batch(changes)
        for space, id in old - new:
            self.engine.delete(space, [id])


class MnemonAsyncDb(AsyncDb):  # type: ignore[misc]
    """`MnemonDb` for `agent.arun`: its calls run on threads, so the event loop goes on meanwhile."""

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, *, id: str | None = None) -> None:
        super().__init__()
        self.db = MnemonDb(engine, namespace, id=id)
        self.engine = self.db.engine
        self.id = self.db.id

    def space(self, user_id: str | None) -> str:
        return self.db.space(user_id)


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str)


def _is_said(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _messages(head: Head | None) -> set[tuple[str, str]]:
    return {(head["space"], id) for id in head.get("messages", [])} if head else set()


def _message(row: Row, id: str, role: Any, text: str) -> Message:
    created_at = row.created_at and datetime.fromtimestamp(to_epoch_s(row.created_at), UTC)
    return Message(text, role, id=id, session=row.fields["session"], created_at=created_at)
