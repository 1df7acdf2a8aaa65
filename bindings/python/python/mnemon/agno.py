"""Agno's database on an engine. Needs the package `agno`."""

import functools
import inspect
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ._adapters import needs, turn_of
from ._async import AsyncEngine, engine_of
from ._mnemon import DocumentOperation, Engine, Message
from ._values import ALL, Head, Place, commit, deletes, key_of, puts, read, space_of
from ._wait import finish

with needs("mnemon.agno", "agno", "agno"):
    from agno.db.base import AsyncBaseDb, BaseDb
    from agno.db.in_memory import InMemoryDb
    from agno.utils.dttm import to_epoch_s
    from pydantic_core import to_jsonable_python

    from ._agno_tables import Tables, said_in

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
    "learnings": "get_learning upsert_learning update_learning delete_learning delete_user_learnings get_learnings search_learnings "
    "get_learning_by_id list_learnings get_learnings_user_stats",
    "compactions": "upsert_compaction get_compaction get_compactions_for_session delete_compactions_for_session search_compactions",
}
# The tables that Agno's database in memory lacks.
OURS = ("learnings", "compactions")
# The field that is a row's id in the tables that are lists.
IDS = {
    "memories": "memory_id",
    "knowledge": "id",
    "eval_runs": "run_id",
    "metrics": "id",
    "learnings": "learning_id",
    "compactions": "compaction_id",
}
# Characters of a text that recalls find: a message has at most 1 MiB.
LENGTH = 2**18
# What JSON does not have, as Pydantic writes it; what that does not know, as text.
JSON = functools.partial(to_jsonable_python, fallback=str, bytes_mode="base64")
# A row's document and its JSON, by its place.
Stored = dict[Place, tuple[Head, str]]


class Row(NamedTuple):
    """A row as it is to be stored: its place, itself, the fields beside it, and the texts of it that recalls find, by role."""

    place: Place
    row: dict[str, Any]
    fields: dict[str, Any]
    texts: dict[Any, Any]


def _stored(table: str, name: str) -> Any:
    """A method of the database in memory, over the stored rows."""
    # Without what marks a method of `BaseDb` as abstract.
    method = getattr(Tables, name)
    # The tables that are ours take what has a name by its name.
    described = getattr(BaseDb, name) if table in OURS else method
    signature = inspect.signature(described)

    @functools.wraps(described, updated=())
    def call(db: "MnemonDb", *given: Any, **named: Any) -> Any:
        about = signature.bind(db, *given, **named).arguments
        if table in OURS:
            given, named = (), {argument: value for argument, value in about.items() if argument != "self"}
        return db._run(table, method, about, given, named)

    return call


def _awaited(name: str) -> Any:
    @functools.wraps(getattr(BaseDb, name), updated=())
    async def call(db: "MnemonAsyncDb", *given: Any, **named: Any) -> Any:
        return await finish(getattr(db.db, name), *given, **named)

    return call


def _called(name: str) -> Any:
    @functools.wraps(getattr(BaseDb, name), updated=())
    def call(db: "MnemonAsyncDb", *given: Any, **named: Any) -> Any:
        return getattr(db.db, name)(*given, **named)

    return call


NAMES = [(table, name) for table, names in METHODS.items() for name in names.split()]
Db: Any = type("Db", (InMemoryDb,), {"__module__": __name__, **{name: _stored(table, name) for table, name in NAMES}})
# Agno calls the methods of compactions without awaiting them, also in `arun`.
AWAITED = {*AsyncBaseDb.__abstractmethods__, *(name for table, name in NAMES if table != "compactions")}
NOT_AWAITED = METHODS["compactions"].split()
AsyncDb: Any = type("AsyncDb", (AsyncBaseDb,), {**{name: _awaited(name) for name in AWAITED}, **{name: _called(name) for name in NOT_AWAITED}})


class MnemonDb(Db):  # type: ignore[misc]
    """The database of Agno's agents, teams and workflows, in a namespace and those below it: `Agent(db=MnemonDb(engine, "acme/agents"))`.

    It has what Agno's `InMemoryDb` has, whose code it runs: sessions and their runs, user memories, knowledge, evaluations, metrics; and
    what an agent learned, and what its compactions replaced. Others, such as those of traces and schedules, raise `NotImplementedError`.
    Agno offloads results of tools to `SqliteDb` and `PostgresDb` alone: with `offload_tool_results`, give a `ResultStore` one of these, or
    it warns and goes on without. Rows are documents, of any size.

    Input and content of each run, each user memory, and what was learned are messages too, which recalls find in the user's own namespace:
    `engine.recall(db.space("ada"), "When does she row?")`. A session id has at most 512 bytes; of a text, recalls find the first 262,144
    characters.

    A call that changes rows is one commit, with their messages. Calls may come from any thread and any number of processes. Cost: a call
    about one session reads that session with its runs, one about a user's memories these memories, and others all rows of the table.
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
        session = about.get("session_id") or getattr(about.get("session"), "session_id", None) or about.get("row", {}).get("session_id")
        user = about.get("user_id") or getattr(about.get("memory"), "user_id", None)
        result: Any = None

        def change() -> Iterator[DocumentOperation]:
            nonlocal result
            copy, stored = Tables(), Stored()
            if table in ("sessions", "metrics"):
                self._load(copy, stored, "sessions", self._below("sessions", session))
            if table == "sessions" and method.__name__.startswith("delete_session"):
                self._load(copy, stored, "compactions", self._below("compactions", session))
            if table == "memories":
                self._load(copy, stored, table, self._below("users", user))
            elif table == "learnings":
                # One row has an id, whoever owns it; with those of a user, all rows are asked for that nobody owns.
                owner = None if "id" in about or about.get("include_global") else user
                self._load(copy, stored, table, self._below(table, owner), **({"id": about["id"]} if "id" in about else {}))
            elif table != "sessions":
                self._load(copy, stored, table, self._below(table, session if table == "compactions" else None))
            result = method(copy, *given, **named)
            yield from _changes(self._rows(copy), stored)

        # In turn, as a call that another one overtakes has to be done again.
        with turn_of(self.namespace, KEY):
            commit(self.engine, change)
        return result

    def _load(self, copy: Any, stored: Stored, table: str, namespace: str, **fields: Any) -> None:
        """Puts the rows of a table that are in a namespace or below it, and have these fields, into the copy."""
        found = self.engine.documents(namespace).search(where={KEY: table, **fields}, below=True, limit=ALL)
        texts = read(self.engine, [(one.namespace, one.key) for one in found])[1]
        rows = [(one, text) for one, text in zip(found, texts, strict=True) if text]
        # Sessions come before runs.
        for one, text in sorted(rows, key=lambda row: ("session" in row[0].value, row[0].value["at"])):
            head, row = one.value, json.loads(text)
            stored[one.namespace, one.key] = head, text
            if table != "sessions":
                getattr(copy, f"_{table}").append(row)
            elif "session" not in head:
                copy._sessions[row["session_id"]] = row
            elif session := copy._sessions.get(head["session"]):
                session["runs"] = session["runs"] or []
                session["runs"].append(row)

    def _rows(self, copy: Any) -> Iterator[Row]:
        for id, session in copy._sessions.items():
            namespace, space, runs = self._below("sessions", id), self.space(session.get("user_id")), session["runs"] or []
            # With their number, a deletion of the session expects that it gets no run meanwhile.
            yield Row((namespace, "session"), {**session, "runs": None}, {KEY: "sessions", "runs": len(runs)}, {})
            for run in runs:
                fields: dict[str, Any] = {KEY: "sessions", "session": id, "space": space}
                # An agent's and a team's run has the input in a field, a workflow's is the input itself.
                asked = run.get("input")
                texts = {"user": asked.get("input_content") if isinstance(asked, dict) else asked, "assistant": run.get("content")}
                yield Row((namespace, key_of("run", run["run_id"])), run, fields, texts)
        for table, name in IDS.items():
            for row in getattr(copy, f"_{table}"):
                id, space, texts = row[name], self._below(table, None), {}
                fields = {KEY: table, "session": table}
                if table == "memories":
                    space, texts = self.space(row.get("user_id")), {"user": row["memory"]}
                    fields["space"] = space
                elif table == "learnings":
                    user = row["user_id"]
                    space, texts = self._below(table, user), {"user": said_in(row["content"])}
                    fields |= {"id": id, "space": self.space(user) if user else space}
                elif table == "compactions":
                    space = self._below(table, row["session_id"])
                yield Row((space, key_of(table, id)), row, {"space": space, **fields}, texts)


class MnemonAsyncDb(AsyncDb):  # type: ignore[misc]
    """`MnemonDb` for `agent.arun`: its calls run on threads, so the event loop goes on meanwhile."""

    def __init__(self, engine: Engine | AsyncEngine, namespace: str, *, id: str | None = None) -> None:
        super().__init__()
        self.db = MnemonDb(engine, namespace, id=id)
        self.engine = self.db.engine
        self.id = self.db.id

    def space(self, user_id: str | None) -> str:
        return self.db.space(user_id)


def _changes(rows: Iterable[Row], stored: Stored) -> Iterator[DocumentOperation]:
    """The operations that store the rows that differ, and delete those that are left over, with their messages."""
    clock = itertools.count(time.time_ns())
    for row in rows:
        head, old = stored.pop(row.place, (None, ""))
        texts = {role: text[:LENGTH].encode(errors="replace").decode() for role, text in row.texts.items() if isinstance(text, str)}
        said = {role: text for role, text in texts.items() if text.strip()}
        ids = [key_of(KEY, *row.place, role) for role in said]
        text, fields = json.dumps(row.row, default=JSON), {**row.fields, "at": head["at"] if head else next(clock), "messages": ids}
        if head is None or text != old or not fields.items() <= head.items():
            yield DocumentOperation.expect(*row.place, head)
            yield from puts(row.place, text, head, **fields)
            yield from _forgets(head or {}, fields)
            if said:
                at = row.row.get("created_at")
                common: Any = {"session": fields["session"], "created_at": at and datetime.fromtimestamp(to_epoch_s(at), UTC)}
                messages = [Message(said[role], role, id=id, **common) for role, id in zip(said, ids, strict=True)]
                yield DocumentOperation.put_messages(fields["space"], messages)
    for place, (head, _) in stored.items():
        yield DocumentOperation.expect(*place, head)
        yield from deletes(place, head)
        yield from _forgets(head, {})


def _forgets(old: Head, new: Head) -> Iterator[DocumentOperation]:
    """The operation that deletes those messages of a row that it has no more, or has elsewhere."""
    if gone := [id for id in old.get("messages", []) if old["space"] != new.get("space") or id not in new["messages"]]:
        yield DocumentOperation.delete_messages(old["space"], gone)
