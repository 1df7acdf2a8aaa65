"""The services of ADK: they do what ADK's own do, on a file, and find what was said."""

import asyncio
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from chats import Overtaken, SlowEmbedder, beside, put_chat
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import load_memory
from google.genai import types
from pydantic import BaseModel

import mnemon
from mnemon import Engine, InvalidMessageError, InvalidNamespaceError
from mnemon._adapters import turn_of
from mnemon._errors import MnemonError
from mnemon.adk import MnemonMemoryService, MnemonSessionService

pytestmark = pytest.mark.asyncio
ADA = {"app_name": "club", "user_id": "ada"}


def event(text: str | None, author: str = "user", *, at: float | None = None, id: str = "", **delta: Any) -> Event:
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)]) if text else None
    state = {name.replace("_", ":", 1) if name.startswith(("app_", "user_", "temp_")) else name: value for name, value in delta.items()}
    made = Event(author=author, content=content, actions=EventActions(state_delta=state), invocation_id="i", id=id)
    if at is not None:
        made.timestamp = at
    return made


def texts(session: Session | None) -> list[str]:
    assert session is not None
    return [part.text or "" for one in session.events if one.content for part in one.content.parts or []]


async def test_states_have_scopes_and_events_survive_reopening(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        service = MnemonSessionService(engine)
        session = await service.create_session(**ADA, session_id=" monday ", state={"app:name": "Club", "user:boat": "kayak", "day": 1, "temp:x": 2, "inf": inf})
        assert (session.id, session.state) == ("monday", {"app:name": "Club", "user:boat": "kayak", "day": 1, "inf": inf})
        said = event("My lesson is on Thursday.", day=2, user_boat=None, temp_y=[1], owner={"a": {"b": None}}, big=2**70)
        await service.append_event(session, said)
        assert session.state["temp:y"] == [1] and "temp:y" not in said.actions.state_delta
        # As it streams in.
        await service.append_event(session, Event(author="atlas", partial=True, content=said.content))
        await service.append_event(session, event(None, "atlas"))
        assert [one.author for one in session.events] == ["user", "atlas"]
    with Engine(tmp_path / "memory.redb") as engine:
        service = MnemonSessionService(engine)
        again = await service.get_session(**ADA, session_id="monday")
        assert again is not None and again.events == session.events and again.last_update_time == session.last_update_time
        assert again.state == {"app:name": "Club", "user:boat": None, "day": 2, "inf": inf, "owner": {"a": {"b": None}}, "big": 2**70}
        assert await service.get_user_state(**ADA) == {"boat": None} and await service.get_user_state(app_name="club", user_id="bo") == {}
        engine.flush()
        assert engine.recall("adk/sessions/club/ada", "When do I learn to row?", k=1)[0].message.text == "My lesson is on Thursday."
        # Other sessions, users and apps see what is theirs.
        other = await service.create_session(**ADA)
        assert other.state == {"app:name": "Club", "user:boat": None} and len(other.id) == 36
        assert (await service.create_session(app_name="club", user_id="bo")).state == {"app:name": "Club"}
        assert (await service.create_session(app_name="other", user_id="ada")).state == {}
        assert await service.get_session(app_name="club", user_id="bo", session_id="monday") is None
        # Calls of tools, media and thoughts too.
        parts = [
            types.Part(text="Hm.", thought=True), types.Part(function_call=types.FunctionCall(id="c", name="look", args={"at": 2**70})),
            types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\xff\x00")),
        ]
        calls = Event(author="atlas", content=types.Content(role="model", parts=parts), custom_metadata={"a": 1}, long_running_tool_ids={"c"})
        response = types.Part(function_response=types.FunctionResponse(id="c", name="look", response={"found": ["kayak"]}))
        results = Event(author="atlas", content=types.Content(role="user", parts=[response]))
        for one in (calls, results):
            await service.append_event(again, one)
        read = await service.get_session(**ADA, session_id="monday")
        assert read is not None and read.events[-2:] == [calls, results]
        assert [message.role for message in engine.history("adk/sessions/club/ada", "monday")] == ["user", "assistant", "assistant", "tool"]


class Lesson(BaseModel):
    day: str = "Thursday"
    place: str | None = None


async def test_what_tools_return_is_there_again_as_in_the_service_on_sqlite(engine: Engine, tmp_path: Path) -> None:
    read = []
    results = [Lesson(), [Lesson(day="Friday")], {"at": datetime(2024, 5, 1), "days": {1}}, {"none": None}, "ü", 2**70]
    for service in (SqliteSessionService(str(tmp_path / "theirs.db")), MnemonSessionService(engine)):
        session = await service.create_session(**ADA, session_id="s")
        for at, result in enumerate(results):
            response = types.FunctionResponse(id=f"c{at}", name="look", response={"result": result})
            content = types.Content(role="user", parts=[types.Part(function_response=response)])
            said = Event(id=str(at), author="atlas", content=content, timestamp=at, actions=EventActions(state_delta={"last": result}))
            await service.append_event(session, said)
        read.append(await service.get_session(**ADA, session_id="s"))
    assert read[0] and read[1] and read[1].events == read[0].events
    assert [one.get_function_responses()[0].response for one in read[1].events[:2]] == [
        {"result": {"day": "Thursday"}}, {"result": [{"day": "Friday"}]},
    ]
    assert "Thursday" in engine.history("adk/sessions/club/ada", "s")[0].text


async def test_what_is_asked_of_a_session_and_of_a_list() -> None:
    with Engine() as engine:
        service = MnemonSessionService(engine)
        session = await service.create_session(**ADA, session_id="s")
        for at in range(5):
            await service.append_event(session, event(f"m{at}", at=1000.0 + at))
        for config, expected in [
            (GetSessionConfig(num_recent_events=2), ["m3", "m4"]), (GetSessionConfig(num_recent_events=0), []),
            (GetSessionConfig(num_recent_events=9), ["m0", "m1", "m2", "m3", "m4"]), (GetSessionConfig(after_timestamp=1003), ["m3", "m4"]),
            (GetSessionConfig(after_timestamp=1001, num_recent_events=1), ["m4"]), (GetSessionConfig(after_timestamp=9999), []),
        ]:
            read = await service.get_session(**ADA, session_id="s", config=config)
            assert texts(read) == expected
        # One that was read in part goes on.
        read = await service.get_session(**ADA, session_id="s", config=GetSessionConfig(num_recent_events=0))
        assert read is not None
        await service.append_event(read, event("m5", at=1005.0))
        for user, id, when in [("bo", "late", 3000.0), ("ada", "early", 500.0)]:
            made = await service.create_session(app_name="club", user_id=user, session_id=id, state={"user:name": user})
            await service.append_event(made, event("x", at=when))
        await service.create_session(app_name="clubs", user_id="ada")
        every = (await service.list_sessions(app_name="club")).sessions
        assert [(one.user_id, one.id, one.events, one.last_update_time) for one in every] == [
            ("ada", "early", [], 500.0), ("ada", "s", [], 1005.0), ("bo", "late", [], 3000.0),
        ]
        assert [one.state for one in every] == [{"user:name": "ada"}, {"user:name": "ada"}, {"user:name": "bo"}]
        assert [one.id for one in (await service.list_sessions(**ADA)).sessions] == ["early", "s"]
        assert (await service.list_sessions(app_name="none")).sessions == []
        # Listed sessions can be appended to.
        await service.append_event(every[1], event("m6"))


async def test_deletes_delete() -> None:
    with Engine() as engine:
        service = MnemonSessionService(engine)
        session = await service.create_session(**ADA, session_id="s", state={"user:kept": 1, "gone": "x" * 600_000})
        await service.append_event(session, event("secret", also="secret"))
        await service.delete_session(**ADA, session_id=" s")
        await service.delete_session(**ADA, session_id="s")
        assert await service.get_session(**ADA, session_id="s") is None
        assert engine.history("adk/sessions/club/ada", "s") == []
        left = engine.documents("adk").search(below=True, limit=100)
        assert [document.key for document in left] == ["state"]
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, event("more"))
        again = await service.create_session(**ADA, session_id="s")
        assert again.events == [] and again.state == {"user:kept": 1}
        # It is another session than the one before.
        with pytest.raises(StaleSessionError):
            await service.append_event(session, event("more"))


async def test_stale_sessions_and_events_that_are_given_again() -> None:
    with Engine() as engine:
        service = MnemonSessionService(engine)
        session = await service.create_session(**ADA, session_id="s")
        copy = await service.get_session(**ADA, session_id="s")
        assert copy is not None
        first = event("first", at=2000.0, n=1)
        await service.append_event(session, first)
        with pytest.raises(StaleSessionError, match="get_session"):
            await service.append_event(copy, event("second", at=3000.0))
        assert await service.append_event(copy, first) == first
        with pytest.raises(AlreadyExistsError, match="ids of their own"):
            await service.append_event(session, event("other", id=first.id))
        # Sessions that no service read: one with the last event goes on, others do not.
        plain = Session(id="s", app_name="club", user_id="ada", events=[first], last_update_time=1.0)
        await service.append_event(plain, event("third", at=4000.0))
        with pytest.raises(StaleSessionError):
            await service.append_event(Session(id="s", app_name="club", user_id="ada", last_update_time=1.0), event("x"))
        read = await service.get_session(**ADA, session_id="s")
        assert texts(read) == ["first", "third"]
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**ADA, session_id="s")


async def test_concurrent_appends_are_all_there_in_one_order() -> None:
    with Engine() as engine:
        services = [MnemonSessionService(engine) for _ in range(4)]
        session = await services[0].create_session(**ADA, session_id="s")
        # Of one run with parallel agents: they share the session object.
        await asyncio.gather(*(services[at % 4].append_event(session, event(f"m{at}", **{f"k{at}": at, "user_n": at})) for at in range(40)))
        read = await services[1].get_session(**ADA, session_id="s")
        assert read is not None and sorted(texts(read)) == sorted(f"m{at}" for at in range(40))
        assert sorted(one.id for one in session.events) == sorted(one.id for one in read.events)
        assert {key: value for key, value in read.state.items() if key != "user:n"} == {f"k{at}": at for at in range(40)}
        # Of several runs: one wins each round, the others are told, and nothing is lost.
        async def append(at: int) -> None:
            while True:
                own = await services[at].get_session(**ADA, session_id="s")
                assert own is not None
                try:
                    await services[at].append_event(own, event(f"r{at}"))
                    return
                except StaleSessionError:
                    continue

        await asyncio.gather(*map(append, range(4)))
        assert sorted(texts(await services[0].get_session(**ADA, session_id="s"))[40:]) == ["r0", "r1", "r2", "r3"]


async def test_a_cancelled_append_is_done_to_its_end(engine: Engine) -> None:
    service = MnemonSessionService(engine)
    session = await service.create_session(**ADA, session_id="s")
    with turn_of(*service._places("club", "ada", "s")[2]):
        append = asyncio.create_task(service.append_event(session, event("said", n=1)))
        for _ in range(2):
            await asyncio.sleep(0.01)
            append.cancel()
        assert not append.done()
    with pytest.raises(asyncio.CancelledError):
        await append
    assert (texts(session), session.state) == (["said"], {"n": 1})
    await service.append_event(session, event("more"))
    assert texts(await service.get_session(**ADA, session_id="s")) == ["said", "more"]


async def test_appends_and_deletions_of_other_machines(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # As of programs that share a database and no locks.
    monkeypatch.setattr("mnemon.adk.turn_of", lambda *_: Lock())
    space, service = "adk/sessions/club/ada", MnemonSessionService(engine)

    async def overtaken(by: Any, call: str, *given: Any, **named: Any) -> Any:
        late = MnemonSessionService(engine)
        late.engine = Overtaken(engine, 1, lambda: asyncio.run(by))  # type: ignore[assignment]
        return await getattr(late, call)(*given, **named)

    session = await service.create_session(**ADA, session_id="s")
    with pytest.raises(SessionNotFoundError):
        await overtaken(service.delete_session(**ADA, session_id="s"), "append_event", session, event("late", user_n=1))
    assert engine.sessions(space) == [] and await service.get_user_state(**ADA) == {}
    session, copy = [await service.create_session(**ADA, session_id="s"), await service.get_session(**ADA, session_id="s")]
    with pytest.raises(StaleSessionError):
        await overtaken(service.append_event(copy, event("first", n=1)), "append_event", session, event("late"))
    read = await overtaken(service.append_event(copy, event("second", n=2)), "get_session", **ADA, session_id="s")
    assert (texts(read), read.state) == (["first", "second"], {"n": 2})
    # Other sessions of the user change a state that both have.
    other = await service.create_session(**ADA, session_id="t")
    await overtaken(service.append_event(other, event("x", user_a=1)), "append_event", read, event("third", user_b=2))
    assert await service.get_user_state(**ADA) == {"a": 1, "b": 2}
    await overtaken(service.append_event(read, event("fourth")), "delete_session", **ADA, session_id="s")
    assert [one["session"] for one in engine.sessions(space)] == ["t"] and await service.get_session(**ADA, session_id="s") is None

    def run(at: int) -> None:
        async def work() -> None:
            mine = MnemonSessionService(engine)
            for turn in range(30):
                try:
                    if at == 0:
                        await mine.delete_session(**ADA, session_id="r")
                    else:
                        found = await mine.get_session(**ADA, session_id="r") or await mine.create_session(**ADA, session_id="r")
                        await mine.append_event(found, event(f"{at} {turn}", **{f"n{at}": turn}))
                except (AlreadyExistsError, SessionNotFoundError, StaleSessionError):
                    continue

        asyncio.run(work())

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
    for _ in range(2):
        left = await service.get_session(**ADA, session_id="r")
        said = [message.text for message in engine.history(space, "r")]
        assert said == (texts(left) if left else [])
        # The state is of the events that are there.
        assert left is None or left.state == {"user:a": 1, "user:b": 2} | {f"n{text[0]}": int(text[2:]) for text in said}
        await service.delete_session(**ADA, session_id="r")


WRITER = """
import asyncio, sys
from google.adk.events import Event, EventActions
from mnemon import Engine
from mnemon.adk import MnemonSessionService

async def main(engine):
    service, at = MnemonSessionService(engine), 0
    while True:
        session = await service.create_session(app_name="club", user_id="ada", session_id="s")
        for n in range(1, 20):
            await service.append_event(session, Event(author="user", id=str(n), message="Said.", actions=EventActions(state_delta={"n": n})))
            print(flush=True)
        await service.delete_session(app_name="club", user_id="ada", session_id="s")

with Engine(sys.argv[1]) as engine:
    asyncio.run(main(engine))
"""


async def test_a_process_that_is_killed_leaves_events_with_their_states_and_no_messages_alone(tmp_path: Path) -> None:
    chance = random.Random(0)
    for at in range(3):
        path = tmp_path / f"{at}.redb"
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            for _ in range(chance.randrange(1, 80)):
                writer.stdout.readline()
            writer.kill()
        with Engine(path) as engine:
            read = await MnemonSessionService(engine).get_session(**ADA, session_id="s")
            events = read.events if read else []
            assert [one.id for one in events] == [str(n) for n in range(1, len(events) + 1)]
            assert (read.state if read else {}) == ({"n": len(events)} if events else {})
            assert len(engine.history("adk/sessions/club/ada", "s")) == len(events)


def known(session: Session | None) -> Any:
    return session and (session.id, session.user_id, session.state, [(one.id, one.author, one.content, one.actions) for one in session.events])


@pytest.mark.parametrize("seed", range(6))
async def test_it_does_what_the_service_in_memory_does(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    theirs = InMemorySessionService()
    with Engine(tmp_path / "memory.redb") as engine:
        ours = MnemonSessionService(engine)
        clock = 1000.0
        for _ in range(120):
            clock += 1
            who = {"app_name": chance.choice(["a", "b/c"]), "user_id": chance.choice(["u", "u\n", "ü/%"])}
            id = chance.choice(["s", "t", " s ", "x/y"])
            match chance.randrange(6):
                case 0:
                    state = chance.choice([None, {"app:x": clock}, {"user:y": [clock], "temp:t": 1}, {"z": {"n": None}}])
                    made = []
                    for service in (theirs, ours):
                        try:
                            made.append(known(await service.create_session(**who, session_id=id, state=state)))
                        except AlreadyExistsError:
                            made.append(None)
                    assert made[0] == made[1]
                case 1:
                    for service in (theirs, ours):
                        await service.delete_session(**who, session_id=id)
                case 2 | 3:
                    config = chance.choice([
                        None, GetSessionConfig(num_recent_events=2), GetSessionConfig(after_timestamp=clock - 20),
                    ])
                    read = [await service.get_session(**who, session_id=id, config=config) for service in (theirs, ours)]
                    assert known(read[0]) == known(read[1])
                    if read[0] and read[1]:
                        delta = chance.choice([{}, {"z": clock}, {"app_x": None}, {"user_y": "ü", "temp_t": 1}])
                        said = event(f"said at {clock}", chance.choice(["user", "atlas"]), at=clock, **delta)
                        for service, session in zip((theirs, ours), read, strict=True):
                            await service.append_event(session, said.model_copy(deep=True))
                        assert known(read[0]) == known(read[1])
                case 4:
                    assert await theirs.get_user_state(**who) == await ours.get_user_state(**who)
                case 5:
                    user = chance.choice([who["user_id"], None])
                    lists = [(await service.list_sessions(app_name=who["app_name"], user_id=user)).sessions for service in (theirs, ours)]
                    assert sorted(map(repr, map(known, lists[0]))) == sorted(map(repr, map(known, lists[1])))


async def test_a_session_reads_what_others_stored_and_changed(engine: Engine) -> None:
    service, space = MnemonSessionService(engine), "adk/sessions/club/ada"
    session = await service.create_session(**ADA, session_id="s")
    await service.append_event(session, event("My number is 5."))
    [message] = engine.history(space, "s")
    engine.put(space, [message.to_dict() | {"content": "My number is hidden."}])
    put_chat(engine, space, "s")
    read = await service.get_session(**ADA, session_id="s")
    assert read is not None and texts(read)[0] == "My number is hidden." and read.events[0].id == session.events[0].id
    assert [one.author for one in read.events] == ["user", "user", "user", "assistant", "user", "user", "assistant"]
    calls = read.events[3].get_function_calls()
    assert [(call.id, call.name, call.args) for call in calls] == [
        ("c1", "look", {"at": "boathouse"}), ("c2", "ask", {"arguments": "Tom"}),
    ]
    responses = [response for one in read.events for response in one.get_function_responses()]
    assert [(one.id, one.name, one.response) for one in responses] == [
        ("c1", "look", {"result": "A red kayak."}), ("c2", "ask", {"result": ""}),
    ]
    assert read.events[2].content and [bool(part.inline_data) for part in read.events[2].content.parts or []] == [False, False, True, False, False]
    await service.append_event(read, event("Thanks!"))
    assert len((await service.get_session(**ADA, session_id="s")).events) == 8  # type: ignore[union-attr]
    engine.documents(space).put("theirs", {"session": "t"})
    assert [one.id for one in (await service.list_sessions(app_name="club")).sessions] == ["s"]


async def test_bad_input_is_refused_and_nothing_is_stored(engine: Engine) -> None:
    service = MnemonSessionService(engine)
    for error, options in [
        (InvalidMessageError, {"session_id": "x" * 600}), (InvalidNamespaceError, {"user_id": ""}), (InvalidNamespaceError, {"app_name": "x" * 600}),
    ]:
        with pytest.raises(error):
            await service.create_session(**(ADA | options))
    with pytest.raises(TypeError, match="a str is needed"):
        MnemonMemoryService(engine, prefix=("adk", "memory"))  # type: ignore[arg-type]
    with pytest.raises(InvalidNamespaceError, match="is empty"):
        MnemonSessionService(engine, prefix="")
    session = await service.create_session(**ADA, session_id="s")
    for error, bad in [(InvalidMessageError, event("x" * 17_000_000, n=1)), (MnemonError, event("x", author="y" * 600, n=1))]:
        with pytest.raises(error):
            await service.append_event(session, bad)
    read = await service.get_session(**ADA, session_id="s")
    assert read is not None and (read.events, read.state, session.events, session.state) == ([], {}, [], {})


async def test_memories_are_found_by_their_user_alone(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        sessions, memory = MnemonSessionService(engine), MnemonMemoryService(engine, k=3)
        session = await sessions.create_session(**ADA, session_id="s")
        said = [event("I row on Thursday."), event("The weather is fine.", "atlas"), event(None)]
        for one in said:
            await sessions.append_event(session, one)
        assert (await memory.search_memory(**ADA, query="rowing")).memories == []
        for _ in range(2):
            await memory.add_session_to_memory(session)
    with Engine(tmp_path / "memory.redb") as engine:
        memory = MnemonMemoryService(engine, k=3)
        found = (await memory.search_memory(**ADA, query="On which day do I row?")).memories
        assert [(one.id, one.author, one.content) for one in found[:1]] == [(said[0].id, "user", said[0].content)] and len(found) == 2
        assert found[0].timestamp and found[0].timestamp.startswith("20")
        for who in ({"app_name": "club", "user_id": "bo"}, {"app_name": "clubs", "user_id": "ada"}):
            assert (await memory.search_memory(**who, query="row")).memories == []
        assert (await memory.search_memory(**ADA, query=" ")).memories == []
        # What is deleted stays so, if the session is added again; what the session has no more goes.
        await memory.delete_memory(**ADA, memory_id=said[0].id)
        await memory.delete_memory(**ADA, memory_id="none")
        await memory.delete_memory(**ADA)
        await memory.add_session_to_memory(session)
        assert [one.id for one in (await memory.search_memory(**ADA, query="row")).memories] == [said[1].id]
        session.events = [event("I sold my kayak.")]
        await memory.add_session_to_memory(session)
        assert [one.id for one in (await memory.search_memory(**ADA, query="row")).memories] == [session.events[0].id]


async def test_events_and_memories_are_added_alone(engine: Engine) -> None:
    memory = MnemonMemoryService(engine)
    more = [event("I row on Thursday."), event("My kayak is red.")]
    await memory.add_events_to_memory(**ADA, events=more[:1], session_id="s", custom_metadata={"source": "chat"})
    await memory.add_events_to_memory(**ADA, events=more)
    content = types.Content(parts=[types.Part(text="Ada likes tea."), types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\xff"))])
    entry = MemoryEntry(content=content, custom_metadata={"a": 1}, timestamp="2024-05-01T09:30:00+00:00", author="atlas")
    await memory.add_memory(**ADA, memories=[entry], custom_metadata={"b": 2})
    found = (await memory.search_memory(**ADA, query="What does Ada drink? Tea?")).memories
    assert len(found) == 4
    assert found[0].model_dump(exclude={"id"}) == entry.model_copy(update={"custom_metadata": {"a": 1, "b": 2}}).model_dump(exclude={"id"})
    assert {"source": "chat"} in [one.custom_metadata for one in found]
    # By each session that has it.
    await memory.delete_memory(**ADA, memory_id=more[0].id)
    await memory.delete_memory(**ADA, memory_id=found[0].id)
    assert [one.id for one in (await memory.search_memory(**ADA, query="row, kayak, tea")).memories] == [more[1].id]
    engine.put("adk/memory/club/ada", ["Put by another program."])
    other = (await memory.search_memory(**ADA, query="another program")).memories[0]
    assert other.content.parts and other.content.parts[0].text == "Put by another program."
    await memory.delete_memory(**ADA, memory_id=other.id)
    [message] = engine.history("adk/memory/club/ada", "notes")
    engine.put("adk/memory/club/ada", [message.to_dict() | {"content": "My kayak is sold."}])
    [changed] = (await memory.search_memory(**ADA, query="kayak")).memories
    assert changed.content.parts and (changed.id, changed.content.parts[0].text) == (more[1].id, "My kayak is sold.")
    await memory.delete_memory(**ADA, memory_id=changed.id)
    await memory.add_events_to_memory(**ADA, events=more)
    assert (await memory.search_memory(**ADA, query="kayak")).memories == []
    with pytest.raises(ValueError, match="isoformat"):
        await memory.add_memory(**ADA, memories=[entry.model_copy(update={"timestamp": "yesterday"})])


async def test_a_memory_that_another_machine_adds_meanwhile_is_deleted_too(engine: Engine) -> None:
    memory, late, said = MnemonMemoryService(engine), MnemonMemoryService(engine), [event("I row on Thursday.")]
    await memory.add_events_to_memory(**ADA, events=said, session_id="s")
    add = memory.add_events_to_memory(**ADA, events=said, session_id="t")
    late.engine = Overtaken(engine, 1, lambda: asyncio.run(add), "sessions")  # type: ignore[assignment]
    await late.delete_memory(**ADA, memory_id=said[0].id)
    await memory.add_events_to_memory(**ADA, events=said, session_id="u")
    assert engine.sessions("adk/memory/club/ada") == []


def turn(invocation: str, text: str | None, *, rewinds: str | None = None) -> Event:
    made = event(text)
    made.invocation_id, made.actions.rewind_before_invocation_id = invocation, rewinds
    return made


async def test_what_a_rewind_takes_back_is_found_no_more(engine: Engine) -> None:
    theirs, ours, memory = InMemorySessionService(), MnemonSessionService(engine), MnemonMemoryService(engine)
    space = "adk/sessions/club/ada"

    def found() -> list[str]:
        return sorted(hit.message.text for hit in engine.recall(space, "bicycle flowerpot piano", k=9))

    async def remembered() -> list[str]:
        return sorted(one.content.parts[0].text for one in (await memory.search_memory(**ADA, query="bicycle flowerpot piano")).memories)

    async def say(*events: Event) -> Session:
        for one in events:
            for service in (theirs, ours):
                session = await service.get_session(**ADA, session_id="s")
                assert session is not None
                await service.append_event(session, one.model_copy(deep=True))
        engine.flush()
        expected, session = [await service.get_session(**ADA, session_id="s") for service in (theirs, ours)]
        assert session is not None and expected is not None
        assert [one for one in session.events if one.id != "other"] == expected.events
        await memory.add_session_to_memory(session)
        return session

    for service in (theirs, ours):
        await service.create_session(**ADA, session_id="s")
    red, locker = turn("1", "My bicycle is red."), turn("2", "The word is flowerpot.")
    await say(red, locker)
    assert found() == await remembered() == ["My bicycle is red.", "The word is flowerpot."]
    # What another program said beside it, or changed, is kept.
    engine.put(space, [mnemon.Message("A flowerpot of another program.", id="other", session="s")])
    await say(turn("3", None, rewinds="2"), turn("4", "I play the piano."))
    assert await remembered() == ["I play the piano.", "My bicycle is red."]
    assert found() == ["A flowerpot of another program.", "I play the piano.", "My bicycle is red."]
    # An event that is given again changes nothing. A rewind goes back over another one.
    session = await ours.get_session(**ADA, session_id="s")
    assert session is not None
    await ours.append_event(session, locker)
    assert await ours.get_session(**ADA, session_id="s") == session
    await say(turn("5", None, rewinds="2"))
    assert await remembered() == ["My bicycle is red."] and "I play the piano." not in found()
    await say(turn("6", None, rewinds="1"), turn("7", "My bicycle is sold."))
    assert await remembered() == ["My bicycle is sold."]
    engine.put(space, [engine.history(space, "s")[0].to_dict() | {"content": "Ada has a bicycle."}])
    session = await ours.get_session(**ADA, session_id="s")
    assert texts(session)[0] == "Ada has a bicycle."


async def test_a_rewind_that_is_added_alone_deletes_what_it_takes_back(engine: Engine) -> None:
    memory = MnemonMemoryService(engine)

    async def add(*events: Event, session: str | None = "s") -> set[str]:
        await memory.add_events_to_memory(**ADA, events=events, session_id=session)
        return {message.text for message in engine.history("adk/memory/club/ada", session or "notes")}

    said = [turn("1", "one"), turn("2", "two"), turn("3", "three")]
    back, four = turn("4", None, rewinds="2"), turn("5", "four")
    assert await add(*said) == {"one", "two", "three"}
    assert await add(back, four) == await add(said[2], back, four) == await add(*said, back, four) == {"one", "four"}
    assert await add(back, four) == {"one", "four"}
    assert await add(turn("6", None, rewinds="5")) == {"one"}
    # Memories without a session are of any.
    assert await add(*said, session=None) == await add(back, session=None) == {"one", "two", "three"}
    assert await add(*said[:1], turn("7", "more"), turn("8", None, rewinds="7"), session=None) == {"one", "two", "three"}
    # Of a session that was read in part, too.
    session = Session(id="t", app_name="club", user_id="ada", events=[said[2], back, four])
    await memory.add_session_to_memory(session)
    assert [message.text for message in engine.history("adk/memory/club/ada", "t")] == ["four"]


async def test_the_event_loop_goes_on() -> None:
    embedder = SlowEmbedder()
    with Engine(embedder=embedder) as engine:
        memory = MnemonMemoryService(engine)
        await memory.add_events_to_memory(**ADA, events=[event("I row.")])
        found = await beside(memory.search_memory(**ADA, query="row"), embedder)
        assert len(found.memories) == 1


class Scripted(BaseLlm):
    answers: list[Any]
    seen: list[Any] = []

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.seen.append(llm_request.contents)
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


async def test_a_runner_remembers(tmp_path: Path) -> None:
    async def run(engine: Engine, session: str, model: Scripted, text: str) -> str:
        agent = LlmAgent(name="atlas", model=model, tools=[load_memory])
        memory, sessions = MnemonMemoryService(engine), MnemonSessionService(engine)
        if not await sessions.get_session(app_name="club", user_id="ada", session_id=session):
            await sessions.create_session(app_name="club", user_id="ada", session_id=session)
        runner = Runner(app_name="club", agent=agent, session_service=sessions, memory_service=memory)
        said = ""
        async for one in runner.run_async(user_id="ada", session_id=session, new_message=types.Content(role="user", parts=[types.Part(text=text)])):
            said += "".join(part.text or "" for part in (one.content.parts if one.content else None) or [])
        done = await sessions.get_session(app_name="club", user_id="ada", session_id=session)
        assert done is not None
        await memory.add_session_to_memory(done)
        return said

    with Engine(tmp_path / "memory.redb") as engine:
        assert await run(engine, "monday", Scripted(model="m", answers=[types.Part(text="Noted.")]), "I row on Thursday.") == "Noted."
    with Engine(tmp_path / "memory.redb") as engine:
        call = types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": "When do I row?"}))
        model = Scripted(model="m", answers=[call, types.Part(text="On Thursday.")])
        assert await run(engine, "tuesday", model, "When do I row?") == "On Thursday."
        assert "I row on Thursday." in str([content.model_dump() for content in model.seen[-1]])
