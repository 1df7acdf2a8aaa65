"""Sessions of Strands agents in an engine. Those of Strands itself are run by `tests/foreign/run_frameworks.py`."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chats import put_chat
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from mnemon import Engine, InvalidMessageError
from mnemon.strands import MnemonSessionRepository

Repository = MnemonSessionRepository


def said(number: int, *content: Any, role: str = "user") -> SessionMessage:
    return SessionMessage.from_message({"role": role, "content": list(content)}, number)  # type: ignore[typeddict-item]


def filled(engine: Engine, namespace: str = "acme/ada", *agents: str) -> Repository:
    """A repository of a session with agents."""
    repository = Repository(engine, namespace)
    repository.create_session(Session("monday", SessionType.AGENT))
    for agent in agents or ("atlas",):
        repository.create_agent("monday", SessionAgent(agent, {"of": agent}, {}))
    return repository


ALL_KINDS: list[Any] = [
    {"text": "Where is my kayak?"},
    {"image": {"format": "png", "source": {"bytes": b"\x00\xff"}}},
    {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": "boathouse", "deep": 2**70}}},
    {"toolResult": {"toolUseId": "c1", "status": "error", "content": [
        {"text": "A red"}, {"json": {"kayak": "gemütlich", "photo": b"\xff"}}, {"text": None}, {"image": {}}]}},
    {"citationsContent": {"content": [{"text": "It is cited."}], "citations": []}},
    {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
    {"cachePoint": {"type": "default"}},
    {"text": None},
]


def test_a_session_survives_reopening_as_it_was(tmp_path: Path) -> None:
    messages = [said(0, *ALL_KINDS), said(1, {"text": "I look.\x00"}, role="assistant"), said(2), said(3, {"text": " "})]
    state = {"notes": "x" * 3_000_000, "bytes": b"\x00\xff", "number": 2**70}
    graph: Any = SimpleNamespace(id="graph", serialize_state=lambda: {"at": "node"})
    with Engine(tmp_path / "m.redb") as engine:
        repository = filled(engine)
        agent = SessionAgent("atlas", state, {"removed_message_count": 2})
        repository.update_agent("monday", agent)
        repository.create_multi_agent("monday", graph)
        for message in messages:
            repository.create_message("monday", "atlas", message)
    with Engine(tmp_path / "m.redb") as engine:
        repository = Repository(engine, "acme/ada")
        assert repository.list_messages("monday", "atlas") == messages
        assert repository.read_message("monday", "atlas", 0) == messages[0]
        assert repository.read_agent("monday", "atlas") == agent
        assert repository.read_multi_agent("monday", "graph") == {"at": "node"}
        found = repository.read_session("monday")
        assert found and found.session_type == SessionType.AGENT


def test_pages_are_in_order_of_the_numbers_and_of_one_agent(engine: Engine) -> None:
    repository = filled(engine, "acme/ada", "atlas", "echo")
    for number in (11, 2, 10, 1, 0):
        repository.create_message("monday", "atlas", said(number, {"text": str(number)}))
        repository.create_message("monday", "echo", said(number, {"text": "echo"}))
    put_chat(engine, "acme/ada", "monday")
    for limit, offset, numbers in [(None, 0, [0, 1, 2, 10, 11]), (2, 1, [1, 2]), (None, 4, [11]), (0, 0, []), (9, 5, [])]:
        found = repository.list_messages("monday", "atlas", limit, offset)
        assert [message.message_id for message in found] == numbers


def test_recalls_find_messages_and_not_what_was_redacted(engine: Engine) -> None:
    repository = filled(engine)
    repository.create_message("monday", "atlas", said(0, {"text": "My card is 4242."}))
    repository.create_message("monday", "atlas", said(1, {"text": "I row on Thursday."}))
    secret = repository.read_message("monday", "atlas", 0)
    assert secret
    old = secret.created_at
    secret.redact_message, secret.created_at = {"role": "user", "content": [{"text": "[removed]"}]}, "2030-01-01T00:00:00+00:00"
    repository.update_message("monday", "atlas", secret)
    read = repository.read_message("monday", "atlas", 0)
    assert read and (read.created_at, read.to_message()["content"]) == (old, [{"text": "[removed]"}])
    engine.flush()
    assert "I row on Thursday." in [hit.message.text for hit in engine.recall("acme/ada", "When does she row?")]
    assert all("4242" not in hit.message.text for hit in engine.recall("acme/ada", "card 4242"))
    repository.create_message("monday", "atlas", said(2, *ALL_KINDS))
    engine.flush()
    assert engine.recall("acme/ada", "gemütlich", k=1)[0].message.metadata["strands_number"] == 2


def test_a_changed_text_is_read(engine: Engine) -> None:
    repository = filled(engine)
    repository.create_message("monday", "atlas", said(0, *ALL_KINDS[:4]))
    [row] = engine.history("acme/ada", "monday")
    parts = [part | {"text": "New."} if part["type"] == "text" else part for part in row.content]
    engine.put("acme/ada", row.to_dict() | {"content": parts})
    [read] = repository.list_messages("monday", "atlas")
    texts = [block.get("text") for block in read.to_message()["content"]]
    assert texts[0] == "New." and "toolUse" in read.to_message()["content"][1]


def test_what_is_missing_or_there_already_is_an_error(engine: Engine) -> None:
    repository = filled(engine)
    repository.create_message("monday", "atlas", said(0, {"text": "first"}))
    graph: Any = SimpleNamespace(id="graph", serialize_state=dict)
    wrong: list[tuple[Any, str]] = [
        (lambda: repository.create_session(Session("monday", SessionType.AGENT)), "a session 'monday' already"),
        (lambda: repository.create_agent("monday", SessionAgent("atlas", {}, {})), "an agent 'atlas' of the session 'monday' already"),
        (lambda: repository.create_agent("friday", SessionAgent("atlas", {}, {})), "the session 'friday' does not exist"),
        (lambda: repository.update_agent("monday", SessionAgent("echo", {}, {})), "the agent 'echo' does not exist"),
        (lambda: repository.create_message("monday", "echo", said(0)), "the agent 'echo' does not exist"),
        (lambda: repository.create_message("monday", "atlas", said(0, {"text": "other"})), "has a message 0 already"),
        (lambda: repository.update_message("monday", "atlas", said(1)), "the message 1 of the agent 'atlas' does not exist"),
        (lambda: repository.list_messages("monday", "echo"), "the agent 'echo' does not exist"),
        (lambda: repository.update_multi_agent("monday", graph), "the state of 'graph' does not exist"),
        (lambda: repository.delete_session("friday"), "the session 'friday' does not exist"),
    ]
    for call, text in wrong:
        with pytest.raises(SessionException, match=text):
            call()
    assert [message.to_message()["content"] for message in repository.list_messages("monday", "atlas")] == [[{"text": "first"}]]
    assert repository.read_session("friday") is repository.read_agent("friday", "a") is repository.read_message("friday", "a", 0) is None
    long = Repository(engine, "long")
    long.create_session(Session("s" * 513, SessionType.AGENT))
    long.create_agent("s" * 513, SessionAgent("atlas", {}, {}))
    with pytest.raises(InvalidMessageError, match="more than 512"):
        long.create_message("s" * 513, "atlas", said(0))


def test_deletions_and_users_keep_apart(engine: Engine) -> None:
    ada, bob = filled(engine, "acme/ada"), filled(engine, "acme/bob")
    for repository in (ada, bob):
        repository.create_message("monday", "atlas", said(0, {"text": "mine"}))
    ada.update_agent("monday", SessionAgent("atlas", {"notes": "x" * 1_200_000}, {}))
    ada.delete_session("monday")
    assert ada.read_session("monday") is ada.read_agent("monday", "atlas") is ada.read_message("monday", "atlas", 0) is None
    assert engine.history("acme/ada", "monday") == [] == engine.documents("acme/ada").search(limit=100)
    assert len(bob.list_messages("monday", "atlas")) == 1
    filled(engine, "acme/ada")


def test_a_session_that_is_deleted_beside_its_agent_is_gone(engine: Engine) -> None:
    def write(repository: Repository) -> None:
        with suppress(SessionException):
            for number in range(20):
                repository.create_message("monday", "atlas", said(number, {"text": "mine"}))

    with ThreadPoolExecutor(2) as threads:
        for _ in range(40):
            repository = filled(engine)
            writing = threads.submit(write, repository)
            while not engine.history("acme/ada", "monday") and not writing.done():
                pass
            repository.delete_session("monday")
            writing.result()
            assert engine.history("acme/ada", "monday") == []


def test_of_calls_at_once_one_creates_and_all_messages_are_kept(engine: Engine) -> None:
    def create(repository: Repository) -> bool:
        try:
            repository.create_session(Session("friday", SessionType.AGENT))
            return True
        except SessionException:
            return False

    repositories = [Repository(engine, "acme/ada") for _ in range(16)]
    filled(engine)
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(create, repositories)) == 1
        list(threads.map(lambda n: repositories[n % 16].create_message("monday", "atlas", said(n, {"text": str(n)})), range(64)))
    assert [message.message_id for message in repositories[0].list_messages("monday", "atlas")] == list(range(64))
