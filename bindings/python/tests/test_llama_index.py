"""LlamaIndex's `Memory` on our chat store beside its own on SQLite; the block, the vector store by LlamaIndex's filters, the embedding."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import Memory, StaticMemoryBlock
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.schema import ImageNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from mnemon import EmbeddingError, Engine, GivenVectors, Message, Query
from mnemon.llama_index._messages import DUMP
from mnemon.llama_index import MnemonBlock, MnemonChatStore, MnemonEmbedding, MnemonVectorStore

SAMPLE = Path(__file__).parents[3] / "datasets/sample/messages.jsonl"
NAMESPACE = "acme/ada"
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(60)
STATUSES = [None, *MessageStatus]
# `Memory` compiles its template for each prompt; its own takes long.
TEMPLATE = RichPromptTemplate("{% for (name, parts) in memory_blocks %}{% for part in parts %}{{ part.text }}{% endfor %}{% endfor %}")


def conversation(namespace: str) -> list[ChatMessage]:
    """A conversation of the sample, with messages of other kinds among its own."""
    lines = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    said = [ChatMessage(role=line["role"], content=line["content"]) for line in lines if line["namespace"] == namespace]
    call = ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"at": ["boats", 1.5, None]})
    old_call = {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"at": "boats"}'}}
    others = [
        ChatMessage(role="system", content="Be kind."),
        ChatMessage(role="user", blocks=[TextBlock(text="What is this?"), ImageBlock(image=PIXEL, image_mimetype="image/png")]),
        ChatMessage(role="assistant", blocks=[ThinkingBlock(content="A boat?"), call]),
        ChatMessage(role="tool", content="in the harbour", additional_kwargs={"tool_call_id": "c1", "name": "look"}),
        ChatMessage(role="assistant", content=None, additional_kwargs={"tool_calls": [old_call]}),
        ChatMessage(role="tool", content="x\\\"\u00e9\u4e16 " * 12_000, additional_kwargs={"tool_call_id": "c2"}),
        ChatMessage(role="assistant", content="a \x00 b\n"),
        ChatMessage(role="user", blocks=[ImageBlock(url="https://example.com/boat.png")]),
        ChatMessage(role="assistant", content="  "),
        ChatMessage(role="user", blocks=[]),
        ChatMessage(role="developer", content="Be brief."),
        ChatMessage(role="chatbot", content="Yes.", additional_kwargs={"n": 2**70, "x": float("inf"), "a.b": {"$c": [{}]}}),
        ChatMessage(role="user", blocks=[TextBlock(text="one"), TextBlock(text="two")]),
    ]
    for at, other in enumerate(others):
        said.insert(7 * at, other)
    return said


def dumps(messages: list[ChatMessage]) -> list[str]:
    return [message.model_dump_json() for message in messages]


@asynccontextmanager
async def both_stores(folder: Path) -> AsyncIterator[tuple[SQLAlchemyChatStore, MnemonChatStore]]:
    theirs = SQLAlchemyChatStore("messages", f"sqlite+aiosqlite:///{folder}/memory.sqlite")
    try:
        with Engine(folder / "memory.redb") as engine:
            yield theirs, MnemonChatStore(engine=engine, namespace=NAMESPACE)
    finally:
        if theirs._async_engine is not None:
            await theirs._async_engine.dispose()


async def state(store: AsyncDBChatStore, key: str) -> list[Any]:
    return [(await store.count_messages(key, status), dumps(await store.get_messages(key, status))) for status in STATUSES]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("namespace", "limit", "flush", "batch"),
    [("acme/priya", 1200, 100, 2), ("friends/ines-tom", 500, 400, 3), ("home/okafor", 60, 1, 5), ("home/okafor", 10**6, 10**5, 40)],
)
async def test_memory_is_the_same_as_on_sqlite(tmp_path: Path, namespace: str, limit: int, flush: int, batch: int) -> None:
    def memory(store: AsyncDBChatStore) -> Memory:
        return Memory.from_defaults(
            "s",
            token_limit=limit,
            token_flush_size=flush,
            memory_blocks=[StaticMemoryBlock(name="about", static_content="You are Atlas.")],
            memory_blocks_template=TEMPLATE,
            chat_store=store,
        )

    messages, archived = conversation(namespace), 0
    async with both_stores(tmp_path) as stores:
        theirs, ours = map(memory, stores)
        for first in range(0, len(messages), batch):
            for side in (theirs, ours):
                await side.aput_messages(messages[first : first + batch])
            expected = await state(theirs.sql_store, "s")
            assert await state(ours.sql_store, "s") == expected
            assert dumps(await ours.aget()) == dumps(await theirs.aget())
            archived = expected[2][0]
        prompt = dumps(await theirs.aget())
    assert expected[0] == (len(messages), dumps(messages))
    assert (archived > 0) == (limit < 10**6)
    async with both_stores(tmp_path) as stores:
        theirs, ours = map(memory, stores)
        assert await state(ours.sql_store, "s") == await state(theirs.sql_store, "s") == expected
        assert dumps(await ours.aget()) == dumps(await theirs.aget()) == prompt
        for side in (theirs, ours):
            await side.aset(messages[:3])
            await side.aput(messages[9])
        assert await state(ours.sql_store, "s") == await state(theirs.sql_store, "s")
        await ours.areset()
        # Nothing of large messages is left.
        assert ours.sql_store.engine.namespaces() == []


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(3))
async def test_the_store_does_what_sqlites_does(tmp_path: Path, seed: int) -> None:
    chance, messages, keys = random.Random(seed), conversation("acme/priya"), ["a", "line\nbreak/\u00e9", "c"]
    async with both_stores(tmp_path) as stores:
        for _ in range(60):
            key, n, status = chance.choice(keys), chance.randrange(6), chance.choice(list(MessageStatus))
            some = chance.sample(messages, chance.randrange(1, 9))
            call: tuple[str, Any] = chance.choice([
                ("add_message", (key, some[0], status)),
                ("add_messages", (key, some)),
                ("add_messages", (key, some, status)),
                ("set_messages", (key, some[:n], status)),
                ("delete_messages", (key, chance.choice([status, status, None]))),
                ("delete_oldest_messages", (key, n)),
                ("archive_oldest_messages", (key, n)),
                ("get_messages", (key, chance.choice(STATUSES), chance.choice([None, n]), chance.choice([None, n]))),
            ])
            outcomes = [await getattr(store, call[0])(*call[1]) for store in stores]
            assert dumps(outcomes[0] or []) == dumps(outcomes[1] or []), call[0]
            theirs, ours = stores
            assert sorted(await ours.get_keys()) == sorted(await theirs.get_keys())
            assert await state(ours, key) == await state(theirs, key), call[0]
        for key in keys:
            assert await state(ours, key) == await state(theirs, key)


@pytest.mark.asyncio
async def test_puts_and_archives_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        stores = [MnemonChatStore(engine=engine, namespace=NAMESPACE) for _ in range(4)]
        texts = [[f"message {number} of {at}" for number in range(25)] for at in range(4)]

        async def work(store: MnemonChatStore, own: list[str]) -> list[ChatMessage]:
            archived = []
            for text in own:
                await store.add_message("s", ChatMessage(content=text))
                archived += await store.archive_oldest_messages("s", 1)
            return archived

        archived = [message.content for done in await asyncio.gather(*map(work, stores, texts)) for message in done]
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonChatStore(engine=engine, namespace=NAMESPACE)
        assert await store.count_messages("s") == 0
        stored = [message.content for message in await store.get_messages("s", MessageStatus.ARCHIVED)]
    assert sorted(stored) == sorted(archived) == sorted(text for own in texts for text in own)
    for own in texts:
        assert [text for text in stored if text in own] == own


@pytest.mark.asyncio
async def test_a_message_is_deleted_by_its_place_and_unknown_keys_are_empty() -> None:
    with Engine() as engine:
        store = MnemonChatStore(engine=engine, namespace=NAMESPACE)
        await store.add_messages("s", [ChatMessage(content=text) for text in "abcd"])
        await store.archive_oldest_messages("s", 1)
        deleted = await store.delete_message("s", 1)
        assert deleted is not None and deleted.content == "c"
        assert await store.delete_message("s", 2) is None and await store.delete_message("t", 0) is None
        assert [message.content for message in await store.get_messages("s", None)] == ["a", "b", "d"]
        await store.delete_messages("t")
        assert await store.get_messages("t") == [] and await store.get_keys() == ["s"]
        with pytest.raises(ValueError):
            await store.get_messages("s", limit=-1)
        last = await store.delete_message("s", -1)
        assert last is not None and last.content == "d" and await store.delete_message("s", -3) is None
        copy = MnemonChatStore(engine=engine, **store.model_dump())
        assert await copy.count_messages("s", None) == 2 and store.class_name() == "MnemonChatStore"
        # What another program puts into the session is part of the chat.
        engine.put(NAMESPACE, [Message("e", "assistant", session="s")])
        assert (await store.get_messages("s"))[-1] == ChatMessage(role=MessageRole.ASSISTANT, content="e")


@pytest.mark.asyncio
async def test_what_llama_index_does_not_read_any_more_is_a_message_of_its_text() -> None:
    with Engine() as engine:
        store = MnemonChatStore(engine=engine, namespace=NAMESPACE)
        for number, dump in enumerate(['{"role": "nobody"}', "no JSON", 5]):
            engine.put(NAMESPACE, [Message(f"a text {number}", session="s", metadata={DUMP: dump})])
        await store.add_message("s", ChatMessage(role="user", content="hello"))
        assert [message.content for message in await store.get_messages("s")] == ["a text 0", "a text 1", "a text 2", "hello"]
        [archived] = await store.archive_oldest_messages("s", 1)
        [oldest] = await store.delete_oldest_messages("s", 1)
        deleted = await store.delete_message("s", 0)
        assert deleted is not None and [archived.content, oldest.content, deleted.content] == ["a text 0", "a text 1", "a text 2"]
        await store.set_messages("s", [ChatMessage(role="user", content="new")])
        assert [message.content for message in await store.get_messages("s")] == ["new"]


@pytest.mark.asyncio
async def test_recalls_find_active_and_archived_messages() -> None:
    with Engine() as engine:
        store = MnemonChatStore(engine=engine, namespace=NAMESPACE)
        said = ["My bike is in the cellar.", "The sky is blue.", "My bakery opens in June."]
        await store.add_messages("s", [ChatMessage(content=text) for text in said])
        ids = [message.id for message in engine.history(NAMESPACE, "s")]
        await store.archive_oldest_messages("s", 2)
        assert [message.id for message in engine.history(NAMESPACE, "s")] == ids
        engine.flush()
        assert engine.recall(NAMESPACE, "where is the bicycle?", k=1)[0].message.text == said[0]
        assert engine.recall(NAMESPACE, "when can I buy bread?", k=1)[0].message.text == said[2]
        archived = Query("bread", where={"llama_index_status": "archived"})
        assert {hit.message.text for hit in engine.recall(NAMESPACE, archived)} == set(said[:2])


def chat(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=text) for text in texts]


@pytest.mark.asyncio
async def test_a_block_recalls_what_left_the_chat_and_other_sessions() -> None:
    with Engine() as engine:
        engine.put(NAMESPACE, [Message("My sister's bakery opens in June.", session="monday")])
        block = MnemonBlock(engine=engine, namespace=NAMESPACE, top_k=1)
        store = MnemonChatStore(engine=engine, namespace="chats")
        memory = Memory.from_defaults(
            "tuesday", token_limit=40, token_flush_size=20, memory_blocks=[block], chat_store=store
        )
        for text in ["My bike is in the cellar.", "The sky is blue today.", "I like tea more than coffee.", "Trains are late."] * 2:
            await memory.aput(ChatMessage(role="user", content=text))
        await memory.aput(ChatMessage(role="user", content="Where is my bicycle?"))
        engine.flush()
        prompt = await memory.aget()
        assert prompt[0].role == "system" and "user] My bike is in the cellar." in (prompt[0].content or "")
        stored = engine.history(NAMESPACE, "tuesday")
        assert [message.text for message in stored] == [m.content for m in await memory.aget_all(MessageStatus.ARCHIVED)]
        assert all(message.metadata == {"llama_index_status": "archived"} for message in stored)
        assert "bakery" in await block.aget(chat("Where can I buy bread?"), session_id="tuesday")
        own = MnemonBlock(engine=engine, namespace=NAMESPACE, own_session=True, top_k=9)
        assert "bakery" not in await own.aget(chat("Where can I buy bread?"), session_id="tuesday")
        assert "cellar" in await own.aget(chat("Where is my bicycle?"), session_id="tuesday")
        # Neither what the chat shows, nor the same twice, nor what is less similar.
        assert "cellar" not in await own.aget(chat("My bike is in the cellar.", "And my bike?"), session_id="tuesday")
        lines = (await own.aget(chat("Where is my bicycle?"), session_id="tuesday")).splitlines()
        assert len(lines) == len(set(lines)) > 1
        near = MnemonBlock(engine=engine, namespace=NAMESPACE, threshold=0.5, top_k=9)
        assert (await near.aget(chat("Where is my bike? In the cellar?"))).count("\n") == 0
        assert await near.aget(chat("entirely unrelated: tax law")) == ""
        assert await block.aget([]) == await block.aget(None) == await block.aget(chat(" ")) == ""
        # The window.
        many = chat("My bike?", *["I like tea."] * 5)
        assert "cellar" not in await block.aget(many, session_id="x")
        wide = MnemonBlock(engine=engine, namespace=NAMESPACE, top_k=5, window=6)
        assert "cellar" in await wide.aget(many, session_id="x")
        assert await block.aget(chat("boat " * 400_000)) != ""


@pytest.mark.asyncio
async def test_a_block_beside_our_chat_store_recalls_what_it_archived() -> None:
    with Engine() as engine:
        store = MnemonChatStore(engine=engine, namespace=NAMESPACE)
        block = MnemonBlock(engine=engine, namespace=NAMESPACE, accept_short_term_memory=False)
        memory = Memory.from_defaults("s", token_limit=60, token_flush_size=30, memory_blocks=[block], chat_store=store)
        for text in ["My bike is in the cellar.", "The sky is blue today.", "I like tea more than coffee.", "Trains are late."] * 2:
            await memory.aput(ChatMessage(role="user", content=text))
        await memory.aput(ChatMessage(role="user", content="Where is my bicycle?"))
        assert len(engine.history(NAMESPACE, "s")) == 9
        engine.flush()
        prompt = await memory.aget()
        assert "cellar" in (prompt[0].content or "") and "bicycle" not in (prompt[0].content or "")
        assert "bicycle" not in await block.aget(chat("my bicycle"), session_id="s")
        assert "bicycle" in await block.aget(chat("my bicycle"), session_id="other")


class Broken:
    name, dimension = "broken", 2

    def embed_documents(self, texts: list[str]) -> Any:
        raise OSError("no model")


def unit(vector: list[float]) -> float:
    return sum(x * x for x in vector) ** 0.5


@pytest.mark.asyncio
async def test_the_embedding_is_the_engines_model() -> None:
    with Engine() as engine:
        model = MnemonEmbedding(engine)
        texts = ["My bike is in the cellar.", "My bakery opens in June."]
        vectors = model.get_text_embedding_batch(texts)
        assert vectors == await model.aget_text_embedding_batch(texts) == [model.get_text_embedding(text) for text in texts]
        assert [await model.aget_text_embedding(text) for text in texts] == vectors
        assert all(len(vector) == engine.model["dimension"] and unit(vector) == pytest.approx(1) for vector in vectors)
        query = model.get_query_embedding("bicycle")
        assert query == await model.aget_query_embedding("bicycle")
        assert model.similarity(query, vectors[0]) > model.similarity(query, vectors[1])
        # One that is too long for the model.
        long = " ".join(texts[:1] * 300)
        vector, query = model.get_text_embedding_batch([long, texts[1]])[0], model.get_query_embedding(long)
        assert unit(vector) == pytest.approx(1) == unit(query)
        assert model.similarity(vector, vectors[0]) > 0.9 < model.similarity(query, vectors[0])
        with pytest.raises(EmbeddingError):
            MnemonEmbedding(Engine(embedder=Broken())).get_text_embedding(long)
        assert model.model_name == engine.model["name"] and "engine" not in model.to_dict()


VALUES: list[Any] = ["a", "b", "boat", "", "ab", 1, 1.0, 2, 2.5, -3, ["a", "boat"], ["a"], [], [1, 2.5], None]
WANTED: dict[FilterOperator, list[Any]] = {
    **dict.fromkeys([FilterOperator.EQ, FilterOperator.NE], ["a", "", 1, 2.5, -3]),
    **dict.fromkeys([FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE], ["a", "b", 1, 2.0]),
    **dict.fromkeys([FilterOperator.IN, FilterOperator.NIN], [["a", "boat"], [1, 2], [2.5], []]),
    **dict.fromkeys([FilterOperator.ANY, FilterOperator.ALL], [["a", "boat"], ["a"], []]),
    FilterOperator.CONTAINS: ["a", "boat", 1, 2.5],
    FilterOperator.TEXT_MATCH: ["a", "oat", ""],
    FilterOperator.IS_EMPTY: [None],
}
KEYS = ["plain", "a.b", "with \"quotes\" and [0]", "$key", "\u00e9", ""]


def theirs(nodes: list[TextNode], filters: MetadataFilters) -> set[str]:
    """The nodes that LlamaIndex's own store leaves, of those that its filter takes without an error."""
    found = set()
    for node in nodes:
        store = SimpleVectorStore()
        store.add([node])
        try:
            found |= set(store.query(VectorStoreQuery([1.0], 1, filters=filters)).ids or [])
        except TypeError:  # A comparison of unlike types. Here it does not match.
            pass
    return found


@pytest.fixture(scope="module")
def nodes() -> list[TextNode]:
    chance = random.Random(7)
    made = []
    for at in range(120):
        metadata = {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.9}
        made.append(TextNode(id_=f"n{at}", text="a red boat", metadata=metadata, embedding=[1.0]))
    return made


@pytest.fixture(scope="module")
def filled(nodes: list[TextNode]) -> Iterator[MnemonVectorStore]:
    with Engine() as engine:
        store = MnemonVectorStore(engine=engine, namespace="nodes")
        store.add(nodes)
        yield store


def ours(store: MnemonVectorStore, filters: MetadataFilters) -> set[str]:
    asked = store.query(VectorStoreQuery(query_str="boat", similarity_top_k=1000, filters=filters)).ids
    assert asked is not None and sorted(asked) == sorted(node.node_id for node in store.get_nodes(filters=filters))
    return set(asked)


@pytest.mark.parametrize("operator", WANTED)
def test_an_operator_finds_what_llama_indexs_own_does(
    operator: FilterOperator, nodes: list[TextNode], filled: MnemonVectorStore
) -> None:
    sizes = set()
    for key in KEYS:
        for value in WANTED[operator]:
            filters = MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])
            expected = theirs(nodes, filters)
            assert ours(filled, filters) == expected, (key, value)
            sizes.add(len(expected))
    assert len(sizes) > 3


@pytest.mark.parametrize("condition", [*FilterCondition, None])
def test_conditions_join_filters(condition: Any, nodes: list[TextNode], filled: MnemonVectorStore) -> None:
    chance = random.Random(11)
    sizes = set()
    # Operators that compare no unlike types, of which theirs makes an error.
    safe = [FilterOperator.EQ, FilterOperator.NE, FilterOperator.IN, FilterOperator.NIN, FilterOperator.IS_EMPTY]
    for _ in range(60):
        operators = [chance.choice(safe) for _ in range(chance.randrange(4))]
        filters = MetadataFilters(
            filters=[
                MetadataFilter(key=chance.choice(KEYS), value=chance.choice(WANTED[operator]), operator=operator)
                for operator in operators
            ],
            condition=condition,
        )
        expected = theirs(nodes, filters)
        assert ours(filled, filters) == expected, filters
        sizes.add(len(expected))
        # Theirs has no nested ones.
        everything = {node.node_id for node in nodes}
        nested = MetadataFilters(filters=[filters, filters], condition=FilterCondition.NOT)
        assert ours(filled, nested) == everything - expected
    assert len(sizes) > 3


def test_what_cannot_be_said_is_refused(filled: MnemonVectorStore) -> None:
    def query(**options: Any) -> None:
        filled.query(VectorStoreQuery(**{"query_str": "boat", **options}))

    def filtered(operator: FilterOperator, value: Any) -> None:
        query(filters=MetadataFilters(filters=[MetadataFilter(key="k", value=value, operator=operator)]))

    with pytest.raises(ValueError, match="lower case"):
        filtered(FilterOperator.TEXT_MATCH_INSENSITIVE, "a")
    with pytest.raises(ValueError, match="IS_EMPTY"):
        filtered(FilterOperator.EQ, None)
    with pytest.raises(ValueError, match="takes a list"):
        filtered(FilterOperator.IN, "a")
    with pytest.raises(ValueError, match="takes one value"):
        filtered(FilterOperator.GT, ["a"])
    with pytest.raises(ValueError, match="takes a text"):
        filtered(FilterOperator.TEXT_MATCH, 1)
    with pytest.raises(ValueError, match="query_str"):
        query(query_str=None, query_embedding=[1.0])
    for mode in set(VectorStoreQueryMode) - {VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.HYBRID}:
        with pytest.raises(ValueError, match="modes default and hybrid"):
            query(mode=mode)
    with pytest.raises(ValueError, match="alpha"):
        query(mode=VectorStoreQueryMode.HYBRID, alpha=0.5)
    with pytest.raises(ValueError, match="clear"):
        filled.delete_nodes()
    with pytest.raises(ValueError, match="clear"):
        filled.delete_nodes(filters=MetadataFilters(filters=[]))


@pytest.mark.asyncio
async def test_nodes_are_kept_found_and_deleted(tmp_path: Path) -> None:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d1", metadata={"page": 1})}
    nodes = [
        TextNode(id_="n1", text="My bike is in the cellar.", metadata={"by": "Ada"}, relationships=source),
        TextNode(id_="n2", text="My bakery opens in June.", metadata={"by": "Ada", "n": 2.5}, start_char_idx=3),
        ImageNode(id_="n3/\u00e9" * 200, text="A boat in the harbour.", image_url="https://example.com/boat.png"),
    ]
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonVectorStore(engine=engine, namespace=NAMESPACE)
        assert await store.async_add(nodes) == [node.node_id for node in nodes]
        # Not the store's own.
        engine.put(NAMESPACE, [Message("a boat")])
        engine.documents(NAMESPACE).put("k", {"text": "a boat", "metadata": {"by": "Ada"}})
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonVectorStore(engine=engine, namespace=NAMESPACE)
        assert [node.to_json() for node in store.get_nodes([node.node_id for node in nodes])] == [n.to_json() for n in nodes]
        assert type(store.get_nodes([nodes[2].node_id])[0]) is ImageNode and store.get_nodes(["none"]) == []
        by_ada = MetadataFilters(filters=[MetadataFilter(key="by", value="Ada")])
        assert {node.node_id for node in await store.aget_nodes(filters=by_ada)} == {"n1", "n2"}
        assert [node.node_id for node in store.get_nodes(["n2", nodes[2].node_id], by_ada)] == ["n2"]
        found = await store.aquery(VectorStoreQuery(query_str="where is the bicycle?", similarity_top_k=2))
        assert found.ids is not None and found.similarities is not None and found.nodes is not None
        assert found.ids[0] == "n1" == found.nodes[0].node_id and found.similarities == sorted(found.similarities)[::-1]
        assert len(found.ids) == 2
        assert store.query(VectorStoreQuery(query_str="bike", similarity_top_k=9, doc_ids=["d1", "d2"])).ids == ["n1"]
        assert store.query(VectorStoreQuery(query_str="bike", similarity_top_k=9, node_ids=["n2"])).ids == ["n2"]
        # A vector beside the text does no harm; the metadata is found, as LlamaIndex embeds it.
        assert store.query(VectorStoreQuery([1.0], query_str="Ada", mode=VectorStoreQueryMode.HYBRID)).ids != [nodes[2].node_id]
        store.add([TextNode(id_="n2", text="The shop is closed.")])
        assert store.get_nodes(["n2"])[0].get_content() == "The shop is closed."
        store.delete_nodes(["n2"], by_ada)
        assert len(store.get_nodes()) == 3
        await store.adelete_nodes(["n2"])
        await store.adelete("d1")
        assert [node.node_id for node in store.get_nodes()] == [nodes[2].node_id]
        await store.aclear()
        assert store.get_nodes() == [] and engine.documents(NAMESPACE).get("k") is not None
        assert engine.recall(NAMESPACE, "boat")[0].message.text == "a boat"
        again = MnemonVectorStore.from_dict(store.to_dict(), engine=engine)
        assert again.namespace == NAMESPACE and again.client is engine


@pytest.mark.asyncio
@pytest.mark.parametrize("other", [False, True])
async def test_an_index_on_the_store(other: bool) -> None:
    with Engine() as engine:
        model = MockEmbedding(1) if other else MnemonEmbedding(engine)
        store = MnemonVectorStore(engine=engine, namespace="docs")
        context = StorageContext.from_defaults(vector_store=store)
        texts = ["My bike is in the cellar.", "My bakery opens in June.", "The sky is blue."]
        documents = [Document(id_=f"d{at}", text=text, metadata={"n": at}) for at, text in enumerate(texts)]
        index = VectorStoreIndex.from_documents(documents, storage_context=context, embed_model=model)
        assert index.as_retriever(similarity_top_k=1).retrieve("the bicycle")[0].text == texts[0]
        index.delete_ref_doc("d0")
        index.insert(Document(id_="d3", text="A boat in the harbour.", metadata={"n": 3}))
        opened = VectorStoreIndex.from_vector_store(store, embed_model=model)
        found = await opened.as_retriever(similarity_top_k=9).aretrieve("the bicycle")
        assert {node.node.ref_doc_id for node in found} == {"d1", "d2", "d3"}
        late = MetadataFilters(filters=[MetadataFilter(key="n", value=2, operator=FilterOperator.GTE)])
        found = opened.as_retriever(similarity_top_k=9, filters=late, vector_store_query_mode="hybrid").retrieve("June")
        assert {node.metadata["n"] for node in found} == {2, 3}


def test_vectors_of_nodes_are_given() -> None:
    rows = {"boat": [3.0, 4.0], "kite": [0.0, 1.0]}
    with Engine(embedder=GivenVectors("axes", 2)) as engine:
        store = MnemonVectorStore(engine=engine, namespace="n", is_embedding_query=True)
        store.add([TextNode(id_=text, text=f"a {text}", embedding=vector) for text, vector in rows.items()])
        found = store.query(VectorStoreQuery([1.0, 0.0], query_str="kite", similarity_top_k=2))
        assert found.ids == ["boat", "kite"] and found.similarities == pytest.approx([0.6, 0], abs=1e-3)
        mode = VectorStoreQueryMode.HYBRID
        assert set(store.query(VectorStoreQuery([1.0, 0.0], query_str="kite", similarity_top_k=2, mode=mode)).ids or []) == set(rows)
        text = VectorStoreQueryMode.TEXT_SEARCH
        assert store.query(VectorStoreQuery(query_str="kite", similarity_top_k=1, mode=text)).ids == ["kite"]
        with pytest.raises(ValueError, match="query_embedding"):
            store.query(VectorStoreQuery(query_str="kite"))
        with pytest.raises(ValueError, match="embedding not set"):
            store.add([TextNode(text="no vector")])
