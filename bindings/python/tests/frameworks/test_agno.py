"""Agno's database in an engine: it does what Agno's database in memory does, and what that does not."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from agno.db.base import SessionType
from agno.db.in_memory import InMemoryDb
from agno.db.schemas.evals import EvalRunRecord, EvalType
from agno.db.schemas.knowledge import KnowledgeRow
from agno.db.schemas.memory import UserMemory
from agno.run.agent import RunInput, RunOutput
from agno.session import AgentSession
from agno.workflow import Step, StepOutput, Workflow
from chats import Overtaken, put_chat

from mnemon import Engine, InvalidNamespaceError
from mnemon.agno import MnemonAsyncDb, MnemonDb


def run(id: str, asked: Any = "hello", said: Any = "Hi.", **fields: Any) -> RunOutput:
    return RunOutput(run_id=id, agent_id="atlas", input=RunInput(asked), content=said, created_at=1_700_000_000, **fields)


def session(id: str, user: str | None = "ada", **fields: Any) -> AgentSession:
    return AgentSession(session_id=id, user_id=user, agent_id="atlas", created_at=1_700_000_000, **fields)


def plain(result: Any) -> Any:
    """A result of a call, without the times of it."""
    if isinstance(result, list | tuple):
        return [plain(one) for one in result]
    fields = result.to_dict() if hasattr(result, "to_dict") else result
    return {key: value for key, value in fields.items() if key != "updated_at"} if isinstance(fields, dict) else fields


def texts(engine: Engine, namespace: str, query: str) -> list[str]:
    engine.flush()
    return [hit.message.text for hit in engine.recall(namespace, query)]


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_do_what_the_database_in_memory_does(seed: int, tmp_path: Path) -> None:
    chance, theirs = random.Random(seed), InMemoryDb()
    path = tmp_path / "m.redb"
    engine = Engine(path)
    for step in range(200):
        id, user = chance.choice(["s", "s0", "s/0", "s\n"]), chance.choice(["ada", "bob"])
        maybe = chance.choice([None, user])
        memory = f"m{chance.randrange(6)} of {user}"
        name, given, named = chance.choice([
            ("upsert_session", [session(id, user, session_data={"step": step})], {}),
            ("upsert_run", [run(f"{id} {chance.randrange(5)}", f"asked {step}").to_dict()], {"session_id": id, "run_index": step}),
            ("get_session", [id, SessionType.AGENT], {"user_id": maybe, "runs_limit": chance.choice([None, 2])}),
            ("get_sessions", [], {"session_type": SessionType.AGENT, "user_id": maybe, "limit": 2, "page": 1, "sort_by": "session_id"}),
            ("rename_session", [id, SessionType.AGENT, f"name {step}"], {"user_id": maybe}),
            ("delete_session", [id], {"user_id": maybe}),
            ("delete_sessions", [[id]], {"user_id": maybe}),
            ("get_run", [f"{id} {chance.randrange(5)}"], {}),
            ("get_runs", [], {"session_id": chance.choice([None, id]), "user_id": maybe, "deserialize": False, "sort_by": "run_id"}),
            ("delete_run", [f"{id} {chance.randrange(5)}"], {}),
            ("delete_runs", [[f"{id} 1", "s/0 2"]], {}),
            ("upsert_user_memory", [UserMemory(f"note {step}", memory, [f"t{step % 3}"], user, created_at=step)], {}),
            ("get_user_memory", [memory], {"user_id": maybe}),
            ("get_user_memories", [], {"user_id": maybe, "search_content": chance.choice([None, "1"]), "sort_by": "memory_id"}),
            ("delete_user_memory", [memory], {"user_id": maybe}),
            ("delete_user_memories", [[memory, "m0 of ada"]], {"user_id": user}),
            ("clear_memories" if step % 5 == 0 else "get_user_memories", [], {}),
            ("upsert_knowledge_content", [KnowledgeRow(id=f"k{step % 4}", name=f"n{step}", description="d")], {}),
            ("get_knowledge_contents", [], {"sort_by": "id"}),
            ("delete_knowledge_content", [f"k{step % 4}"], {}),
            ("create_eval_run", [EvalRunRecord(run_id=f"e{step}", eval_type=EvalType.ACCURACY, eval_data={"step": step})], {}),
            ("get_eval_runs", [], {"sort_by": "run_id"}),
            ("delete_eval_runs", [[f"e{step - 1}"]], {}),
        ])
        ours = MnemonDb(engine, "acme/agents")
        expected, result = getattr(theirs, name)(*given, **named), getattr(ours, name)(*given, **named)
        assert plain(result) == plain(expected), (step, name, given, named)
        assert sorted(ours.get_all_memory_topics()) == sorted(theirs.get_all_memory_topics())
        if step % 60 == 59:
            engine.close()
            engine = Engine(path)
    said = {text for one in theirs._sessions.values() for run in one["runs"] or [] for text in [run["input"]["input_content"]]}
    notes = {one["memory"] for one in theirs._memories}
    stored = {message.text for user in ("ada", "bob") for at in engine.sessions(f"acme/agents/users/{user}")
              for message in engine.history(f"acme/agents/users/{user}", at["session"])}
    assert stored - {"Hi."} == said | notes
    engine.close()


def test_recalls_find_runs_and_memories_of_their_user(engine: Engine) -> None:
    db = MnemonDb(engine, "acme/agents")
    for user in ("ada", "b/ob", None):
        db.upsert_session(session(f"of {user}", user))
        db.upsert_run(run(f"r {user}", f"{user} rows on Thursday.", "Noted."), session_id=f"of {user}")
    db.upsert_user_memory(UserMemory("Likes soup.", memory_id="m", user_id="b/ob"))
    put_chat(engine, db.space("ada"), "monday")
    assert texts(engine, db.space("b/ob"), "Who rows?")[0] == "b/ob rows on Thursday."
    assert "Likes soup." in texts(engine, db.space("b/ob"), "soup")
    assert not {"Likes soup.", "b/ob rows on Thursday."} & set(texts(engine, db.space("ada"), "soup, and who rows"))
    assert not {"ada rows on Thursday."} & set(texts(engine, db.space("b/ob"), "ada rows"))
    assert db.get_session("of b/ob", SessionType.AGENT, user_id="ada") is None
    db.upsert_session(session("of None", "ada"))
    assert "None rows on Thursday." in texts(engine, db.space("ada"), "None rows")
    assert "None rows on Thursday." not in texts(engine, db.space(None), "None rows")
    db.delete_session("of b/ob")
    db.delete_user_memory("m", user_id="b/ob")
    assert texts(engine, db.space("b/ob"), "rows soup") == []
    assert engine.history(db.space("ada"), "monday")


def test_what_was_stored_survives_reopening_at_any_size(tmp_path: Path) -> None:
    with Engine(tmp_path / "m.redb") as engine:
        db = MnemonDb(engine, "acme/agents")
        db.upsert_session(session("s", session_data={"big": "x" * 2_000_000}))
        db.upsert_run(run("r", said=None, metadata={"big": "y" * 2_000_000, "number": 2**70}), session_id="s")
        db.upsert_run(run("q", asked=[{"deep": 1}], said={"a": 1}), session_id="s")
        # Of which recalls find the beginning, and what is a text.
        db.upsert_run(run("p", asked="😀" * 600_000, said="\ud800"), session_id="s")
        assert [len(message.text) for message in engine.history(db.space("ada"), "s")] == [5, 2**18, 1]
    with Engine(tmp_path / "m.redb") as engine:
        read = MnemonDb(engine, "acme/agents").get_session("s", SessionType.AGENT)
        assert read.session_data == {"big": "x" * 2_000_000}
        assert [one.run_id for one in read.runs] == ["r", "q", "p"]
        assert read.runs[0].metadata == {"big": "y" * 2_000_000, "number": 2**70}
        assert read.runs[1].content == {"a": 1} and (read.runs[2].input.input_content, read.runs[2].content) == ("😀" * 600_000, "\ud800")


def test_a_workflow_is_kept_and_recalled(engine: Engine) -> None:
    db = MnemonDb(engine, "acme/agents")
    for asked in ("When does Ada row?", {"day": "Thursday"}, ["Thursday"]):
        steps = [Step(name="answer", executor=lambda _: StepOutput(content="On Thursday."))]
        Workflow(name="week", steps=steps, db=db, telemetry=False).run(asked, session_id="s", user_id="ada")
    read = db.get_session("s", SessionType.WORKFLOW)
    assert [one.input for one in read.runs] == ["When does Ada row?", {"day": "Thursday"}, ["Thursday"]]
    assert [message.text for message in engine.history(db.space("ada"), "s")] == ["When does Ada row?", *["On Thursday."] * 3]


def test_what_json_does_not_have_is_read_as_json(engine: Engine) -> None:
    db = MnemonDb(engine, "acme/agents")
    state = {"at": datetime(2024, 5, 1), "days": {4}, "note": UserMemory("x", "m"), "kind": SessionType.AGENT, "call": run, "bytes": b"\xff"}
    db.upsert_session(session("s", session_data={"session_state": state}))
    read = db.get_session("s", SessionType.AGENT).session_data["session_state"]
    assert (read["at"], read["days"], read["note"]["memory"], read["kind"]) == ("2024-05-01T00:00:00", [4], "x", "agent")
    assert read["call"].startswith("<function run") and read["bytes"] == "_w=="


def test_runs_and_memories_at_once_are_all_kept(engine: Engine) -> None:
    databases = [MnemonDb(engine, "acme/agents") for _ in range(8)]
    databases[0].upsert_session(session("s"))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: databases[n % 8].upsert_run(run(f"r{n}"), session_id="s"), range(48)))
        list(threads.map(lambda n: databases[n % 8].upsert_user_memory(UserMemory(f"note {n}", f"m{n}", user_id="ada")), range(48)))
    assert {one.run_id for one in databases[0].get_session("s", SessionType.AGENT).runs} == {f"r{n}" for n in range(48)}
    assert len(databases[0].get_user_memories(user_id="ada")) == 48


def test_what_other_machines_change_meanwhile(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # As of programs that share a database and no locks.
    monkeypatch.setattr("mnemon.agno.turn_of", lambda *_: Lock())
    db = MnemonDb(engine, "acme/agents")

    def overtaken(name: str, *given: Any, **named: Any) -> MnemonDb:
        late = MnemonDb(engine, "acme/agents")
        late.engine = Overtaken(engine, 1, lambda: getattr(db, name)(*given, **named))
        return late

    db.upsert_session(session("s"))
    overtaken("upsert_run", run("r1"), session_id="s").upsert_run(run("r2"), session_id="s")
    assert {one.run_id for one in db.get_session("s", SessionType.AGENT).runs} == {"r1", "r2"}
    overtaken("upsert_run", run("r3"), session_id="s").delete_session("s")
    assert engine.sessions(db.space("ada")) == []
    db.upsert_session(session("s"))
    overtaken("delete_session", "s").upsert_run(run("r4"), session_id="s")
    assert engine.sessions(db.space("ada")) == [] and engine.documents("acme").search(below=True, limit=9) == []

    def work(at: int) -> None:
        for turn in range(20):
            mine = MnemonDb(engine, "acme/agents")
            if at == 0:
                mine.delete_session("s")
            else:
                mine.upsert_session(session("s"))
                mine.upsert_run(run(f"{at} {turn}", f"asked {at} {turn}", None), session_id="s")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    left = db.get_session("s", SessionType.AGENT)
    asked = [one.input.input_content for one in left.runs or []] if left else []
    assert [message.text for message in engine.history(db.space("ada"), "s")] == asked
    db.delete_session("s")
    assert engine.sessions(db.space("ada")) == [] and engine.documents("acme").search(below=True, limit=9) == []


def test_what_cannot_be_stored_is_refused_and_changes_nothing(engine: Engine) -> None:
    db = MnemonDb(engine, "acme/agents")
    with pytest.raises(InvalidNamespaceError, match="longer than 512 bytes"):
        db.upsert_session(session("s" * 513))
    db.upsert_session(session("s"))
    with pytest.raises(TypeError, match="keys must be str"):
        db.upsert_run(run("r", metadata={(1, 2): 3}), session_id="s")
    assert not db.get_session("s", SessionType.AGENT).runs
    for call in (lambda: db.get_traces(), lambda: db.get_span("x")):
        with pytest.raises(NotImplementedError):
            call()


@pytest.mark.asyncio
async def test_the_same_with_await_and_the_loop_goes_on(engine: Engine) -> None:
    db, ticks = MnemonAsyncDb(engine, "acme/agents"), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    beside = asyncio.ensure_future(tick())
    await db.upsert_session(session("s"))
    await asyncio.gather(*(db.upsert_run(run(f"r{n}"), session_id="s") for n in range(20)))
    read = await db.get_session("s", SessionType.AGENT, user_id="ada")
    beside.cancel()
    assert len(read.runs) == 20 and ticks > 5
    assert plain(MnemonDb(engine, "acme/agents").get_session("s", SessionType.AGENT)) == plain(read)
