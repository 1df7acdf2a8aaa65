"""LangChain's standard tests, all of the suites for what there is, and what they do not ask."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.integration_tests.base_store import BaseStoreAsyncTests, BaseStoreSyncTests
from langchain_tests.integration_tests.cache import AsyncCacheTestSuite, SyncCacheTestSuite
from langchain_tests.integration_tests.indexer import AsyncDocumentIndexTestSuite, DocumentIndexerTestSuite

from mnemon import Engine
from mnemon.langchain import MnemonByteStore, MnemonCache, MnemonChatMessageHistory, MnemonIndex

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning"),
    # Sync tests of a suite carry the mark too.
    pytest.mark.filterwarnings("ignore:The test .* is marked with '@pytest.mark.asyncio'"),
]


class Stores:
    @pytest.fixture
    def kv_store(self):
        with Engine() as engine:
            yield MnemonByteStore(engine, "store")

    @pytest.fixture
    def three_values(self):
        return b"foo", b"\x00\xff", b""


class TestByteStore(Stores, BaseStoreSyncTests[bytes]):
    pass


class TestAsyncByteStore(Stores, BaseStoreAsyncTests[bytes]):
    pass


class TestCache(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self):
        with Engine() as engine:
            yield MnemonCache(engine, "cache")


class TestAsyncCache(AsyncCacheTestSuite):
    @pytest.fixture
    def cache(self):
        with Engine() as engine:
            yield MnemonCache(engine, "cache")


class TestIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self):
        with Engine() as engine:
            yield MnemonIndex(engine=engine, namespace="index")


class TestAsyncIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    def index(self):
        with Engine() as engine:
            yield MnemonIndex(engine=engine, namespace="index")


class TestRetriever(RetrieversIntegrationTests):
    engine = None

    @pytest.fixture(autouse=True)
    def documents(self):
        with Engine() as engine:
            TestRetriever.engine = engine
            texts = [f"The boat number {number} is red." for number in range(5)]
            MnemonIndex(engine=engine, namespace="n").upsert([Document(page_content=text) for text in texts])
            yield

    @property
    def retriever_constructor(self) -> type[MnemonIndex]:
        return MnemonIndex

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"engine": TestRetriever.engine, "namespace": "n"}

    @property
    def retriever_query_example(self) -> str:
        return "a red boat"


def test_bytes_of_any_size_and_keys_of_any_text(tmp_path: Path) -> None:
    large = bytes(range(256)) * 10_000
    keys = ["k", "", "a" * 2000, "line\nbreak", "\u00e9/\u4e16"]
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonByteStore(engine, "store")
        store.mset([(key, large) for key in keys])
        store.mset([("k", b"small"), ("k", b"last")])
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonByteStore(engine, "store")
        assert store.mget([*keys, "other"]) == [b"last", *[large] * 4, None]
        assert sorted(store.yield_keys()) == sorted(keys) and list(store.yield_keys(prefix="aa")) == ["a" * 2000]
        store.mdelete(keys)
        # No part of a large value is left.
        assert engine.namespaces() == []


def test_a_retriever_filters_and_finds_what_was_upserted_just_before() -> None:
    with Engine() as engine:
        index = MnemonIndex(engine=engine, namespace="n", where={"colour": "red"})
        index.upsert([Document(page_content="a bicycle", metadata={"colour": colour}) for colour in ("red", "blue")])
        assert [found.metadata for found in index.invoke("bikes and such")] == [{"colour": "red"}]


def test_a_history_keeps_messages_as_they_were(tmp_path: Path) -> None:
    call = {"name": "look", "args": {"at": "boats"}, "id": "c1"}
    messages = [
        SystemMessage("be kind"),
        HumanMessage([{"type": "text", "text": "where is the boat?"}], name="Ada"),
        HumanMessage("Hello?", name=""),
        AIMessage("", tool_calls=[call]),
        ToolMessage("in the harbour", tool_call_id="c1"),
        AIMessage("In the harbour.", response_metadata={"tokens": 7}),
    ]
    with Engine(tmp_path / "memory.redb") as engine:
        MnemonChatMessageHistory(engine, "acme/ada", "s").add_messages(messages)
    with Engine(tmp_path / "memory.redb") as engine:
        history = MnemonChatMessageHistory(engine, "acme/ada", "s")
        assert history.messages == messages
        assert "harbour" in engine.recall("acme/ada", "harbour", k=1)[0].message.text
        history.clear()
        history.clear()
        assert history.messages == []


def test_a_cache_keeps_chat_answers(tmp_path: Path) -> None:
    answers = [ChatGeneration(message=AIMessage("hello", response_metadata={"tokens": 3}))]
    with Engine(tmp_path / "memory.redb") as engine:
        MnemonCache(engine, "cache").update("p" * 100_000, "settings", answers)
    with Engine(tmp_path / "memory.redb") as engine:
        assert MnemonCache(engine, "cache").lookup("p" * 100_000, "settings") == answers


def test_clearing_a_cache_deletes_its_answers_alone() -> None:
    with Engine() as engine:
        cache, history, store = [kind(engine, "n") for kind in (MnemonCache, partial(MnemonChatMessageHistory, session="s"), MnemonByteStore)]
        history.add_user_message("Hello!")
        store.mset([("key", b"value")])
        for size in (1, 1_000_000):
            cache.update(f"{size}", "settings", [ChatGeneration(message=AIMessage("x" * size))])
        cache.clear()
        assert cache.lookup("1", "settings") is cache.lookup("1000000", "settings") is None
        assert history.messages == [HumanMessage("Hello!")] and store.mget(["key"]) == [b"value"]
        assert len(engine.documents("n").search(limit=9)) == 1
