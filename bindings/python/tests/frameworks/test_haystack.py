"""Haystack's document store in an engine: the tests that Haystack carries, `haystack.testing`, and others."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import haystack.testing.document_store as sync_tests
import haystack.testing.document_store_async as async_tests
import pytest
from chats import SlowEmbedder, beside, put_chat
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError

from mnemon import Engine, GivenVectors, InvalidValueError, MnemonError
from mnemon.haystack import MnemonDocumentStore, MnemonEmbeddingRetriever, MnemonTextRetriever

Store = MnemonDocumentStore

MIXINS = [
    found
    for module in (sync_tests, async_tests)
    for name, found in vars(module).items()
    if name.endswith("Test") and getattr(found, "__module__", None) == module.__name__
]


class TestDocumentStore(*MIXINS):  # type: ignore[misc]
    @pytest.fixture
    def document_store(self, engine: Engine) -> MnemonDocumentStore:
        return MnemonDocumentStore(engine, "documents")

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        """In any order."""
        assert sorted(received, key=lambda one: one.id) == sorted(expected, key=lambda one: one.id)

    def test_write_documents(self, document_store: MnemonDocumentStore) -> None:
        """The default is to fail."""
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])

    @pytest.mark.asyncio
    async def test_write_documents_async(self, document_store: Any) -> None:
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])


def filters(field: str, operator: str, value: Any) -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


DOCUMENTS = [
    Document(id="1", content="Ada rows on Thursday.", meta={"year": 2026, "tags": ["sport"]}, embedding=[1.0, 0.1]),
    Document(id="2", content="The boathouse closes at dusk.", meta={"year": 2019}, embedding=[0.0, 1.0]),
    Document(id="3", content="Ada likes soup.", meta={"year": 2026}),
]


def ids(documents: list[Document]) -> list[str]:
    return [one.id for one in documents]


def test_documents_of_every_kind_survive_reopening(tmp_path: Path) -> None:
    documents = [
        Document(content="text\x00", meta={"a": {"b": [1, None, 0.1]}}, score=0.5, embedding=[0.1, 1e300, -0.0]),
        Document(blob=ByteStream(b"\x00\xff", meta={"of": "a.pdf"}, mime_type="application/pdf")),
        Document(id="k" * 5000, content="", sparse_embedding=SparseEmbedding([1, 5], [0.1, 0.2]), embedding=[]),
        Document(id="naïve/\x00 id", content=" "),
    ]
    with Engine(tmp_path / "m.redb") as engine:
        assert Store(engine, "n").write_documents(documents) == 4
    with Engine(tmp_path / "m.redb") as engine:
        TestDocumentStore.assert_documents_are_equal(Store(engine, "n").filter_documents(), documents)


def test_policies_within_a_call_and_over_several(engine: Engine) -> None:
    store = Store(engine, "n")
    one, other, new = Document(id="1", content="one"), Document(id="1", content="other"), Document(id="2", content="new")
    with pytest.raises(DuplicateDocumentError, match="the id '1' already; to replace it, use DuplicatePolicy.OVERWRITE"):
        store.write_documents([one, other], DuplicatePolicy.FAIL)
    assert store.count_documents() == 0
    assert store.write_documents([one, other], DuplicatePolicy.SKIP) == 1
    with pytest.raises(DuplicateDocumentError):
        store.write_documents([new, one])
    assert ids(store.filter_documents()) == ["1"]
    assert store.write_documents([one, other], DuplicatePolicy.OVERWRITE) == 2
    assert [one.content for one in store.filter_documents()] == ["other"]
    assert store.write_documents([]) == 0
    assert store.write_documents(iter([Document(id="2"), Document(id="3")])) == 2  # type: ignore[arg-type]
    assert ids(store.filter_documents()) == ["1", "2", "3"]
    store.write_documents([Document(id="1", meta={"n": 1})], DuplicatePolicy.OVERWRITE)
    assert ids(store.filter_documents()) == ["2", "3", "1"]


def test_searches_find_by_text_filters_and_vectors(engine: Engine) -> None:
    store = Store(engine, "acme/handbook")
    store.write_documents(DOCUMENTS)
    text, vector = MnemonTextRetriever(store, top_k=1), MnemonEmbeddingRetriever(store)
    [found] = text.run("When does Ada row?")["documents"]
    assert found.id == "1" and isinstance(found.score, float) and found.embedding == [1.0, 0.1]
    old = filters("meta.year", "<", 2020)
    assert ids(text.run("When does Ada row?", filters=old)["documents"]) == ["2"]
    assert ids(store.search("Ada", filters("meta.year", "==", 1))) == ids(text.run(" ")["documents"]) == ids(text.run("a", top_k=0)["documents"]) == []
    assert ids(vector.run([0.0, 2.0])["documents"]) == ["2", "1"]
    assert ids(vector.run([0.0, 2.0], filters("meta.year", ">", 2020), 1)["documents"]) == ["1"]
    merged = MnemonTextRetriever(store, old, filter_policy=FilterPolicy.MERGE)
    assert ids(merged.run("Ada", filters=filters("meta.tags", "==", ["sport"]))["documents"]) == []
    assert "1" in {one.value["id"] for one in engine.documents("acme/handbook").search("row", limit=1)}


VALUES: list[Any] = [
    0, 1, 2, -1, 1.0, 0.5, 2**53 + 1, float(2**53), True, False, None, "", "a", "1", "a-b", "2024-01-02", "2024-01-02T00:00:00",
    "2024-01-02 extra", "2024-01-01T23:00:00-01:00", "May 2, 2024", [], ["a"], [1], [True], {}, {"b": 1}, {"b": "a"}, {"b": None}]
ASKED = [*VALUES, 2**70, float("inf"), float("nan"), "\ud800", datetime(2024, 1, 2, tzinfo=UTC), ("a",), object()]
FIELDS = ["meta.a", "meta.a.b", "meta.c", "c", "meta.d.e", "meta", "id", "id.a", "content", "score", "embedding", "other.a", "meta.x y\"]", "meta."]
OPERATORS = ["==", "!=", ">", ">=", "<", "<=", "in", "not in"]


def some_filter(chance: random.Random, depth: int = 3) -> Any:
    """Any filter; few that are none."""
    if depth and chance.random() < 0.5:
        inner = [some_filter(chance, depth - 1) for _ in range(chance.randint(0, 3))]
        return {"operator": chance.choice(["AND", "OR", "NOT"]), "conditions": inner}
    if chance.random() < 0.01:
        nonsense = [{}, {"field": "meta.a", "operator": "=="}, filters("meta.a", "~", 1), {"operator": "XOR", "conditions": []}, "x"]
        return chance.choice(nonsense)
    operator = chance.choice(OPERATORS[:6] if chance.random() < 0.7 else OPERATORS)
    # Many that raise no error.
    value = chance.choice(ASKED) if chance.random() < 0.5 else chance.choice([1, 0.5, "a", None])
    if operator in ("in", "not in") and chance.random() < 0.95:
        value = chance.choices(ASKED if chance.random() < 0.3 else VALUES[:14], k=chance.randint(0, 3))
    return filters(chance.choice(FIELDS), operator, value)


def outcome(call: Callable[[], list[Document]]) -> Any:
    """The ids of what was found, or that it failed."""
    try:
        return sorted(ids(call()))
    except Exception as error:
        assert isinstance(error, FilterError | TypeError | ValueError | AttributeError), error
        return "error"


@pytest.mark.parametrize("mixed", [False, True])
def test_any_filter_finds_what_it_finds_in_memory(mixed: bool) -> None:
    chance = random.Random(7)
    # Of one type, most comparisons raise no error.
    values = VALUES if mixed else [0, 1, 2, 0.5, None, 3, 10**15]

    def some_document(at: int) -> Document:
        meta = {name: chance.choice(values) for name in ("a", "c", 'x y"]', "") if chance.random() < 0.8}
        return Document(id=f"{at}", content=chance.choice(["a boat", "boat", "a"]), meta=meta, embedding=[1.0, chance.random()])

    found, raised = 0, 0
    with Engine(embedder=GivenVectors("none", 2)) as engine:
        for round in range(60):
            documents = [some_document(at) for at in range(chance.randint(1, 8))]
            store, memory = Store(engine, f"{round}"), InMemoryDocumentStore(shared=False)
            store.write_documents(documents)
            memory.write_documents(documents)
            for _ in range(25):
                asked = some_filter(chance)
                expected = outcome(lambda: memory.filter_documents(asked))
                found, raised = found + (expected not in ("error", [])), raised + (expected == "error")
                assert outcome(lambda: store.filter_documents(asked)) == expected, asked
                assert outcome(lambda: store.search("a boat", asked)) == expected, asked
                assert outcome(lambda: store.embedding_retrieval([1.0, 0.0], asked)) == expected, asked
    assert found > 200 and raised > 100


def test_the_engine_finds_what_haystack_judges(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def spy(memory: InMemoryDocumentStore, given: Any = None) -> list[Document]:
        judged.append(len(memory.storage))
        return method(memory, given)

    method = InMemoryDocumentStore.filter_documents
    monkeypatch.setattr(InMemoryDocumentStore, "filter_documents", spy)
    store = Store(engine, "n")
    store.write_documents([Document(id=f"{at}", content="boat", meta={"n": at, "day": f"2024-01-{1 + at % 28:02}"}) for at in range(100)])
    few = {"operator": "AND", "conditions": [filters("meta.n", ">=", 10), filters("meta.n", "<", 20)]}
    some = {"operator": "AND", "conditions": [few, filters("meta.day", ">", "2024-01-15")]}
    assert (len(store.filter_documents(few)), len(store.filter_documents(some))) == (10, 5) and judged == [10, 10]
    assert len(store.search("boat", few, 100)) == 10 and judged == [10, 10]
    assert len(store.search("boat", some, 100)) == 5 and judged == [10, 10, 10]
    # However deep it is, and whatever is in it.
    deep = few
    for _ in range(60):
        deep = {"operator": "NOT", "conditions": [deep]}
    assert len(store.filter_documents(deep)) == 10 and len(store.search("boat", deep, 100)) == 10
    # What is in no order with numbers is judged.
    store.write_documents([Document(id="x", content="boat", meta={"n": "x"})])
    with pytest.raises(FilterError):
        store.search("boat", few)


def test_given_vectors_are_the_engines(tmp_path: Path) -> None:
    with Engine(tmp_path / "m.redb", embedder=GivenVectors("none", 2)) as engine:
        store = Store(engine, "n")
        store.write_documents([*DOCUMENTS, Document(id="4", content=" ", embedding=[-0.5, 0.0]), Document(id="5", embedding=[0.3, 0.4])])
        with pytest.raises(MnemonError, match="a vector of 3 components"):
            store.write_documents([Document(id="6", content="x", embedding=[1.0, 0.0, 0.0])])
        with pytest.raises(MnemonError, match="a vector of 3 components"):
            store.embedding_retrieval([1.0, 0.0, 0.0])
    with Engine(tmp_path / "m.redb") as engine:
        store = Store(engine, "n")
        found = store.embedding_retrieval([0.0, 2.0], return_embedding=True)
        assert ids(found) == ["2", "5", "1", "4"] and ids(MnemonEmbeddingRetriever(store, top_k=1).run([0.0, 2.0])["documents"]) == ["2"]
        assert [one.embedding for one in found] == [[0.0, 1.0], [0.3, 0.4], [1.0, 0.1], [-0.5, 0.0]]
        assert [one.score for one in found] == pytest.approx([1.0, 0.8, 0.1 / 1.01**0.5, 0.0])
        [scaled] = store.embedding_retrieval([0.0, 2.0], filters("meta.year", "==", 2026), 1, True)
        assert scaled.id == "1" and scaled.score == pytest.approx((0.1 / 1.01**0.5 + 1) / 2) and scaled.embedding is None
        store.write_documents([Document(id="2", content="The boathouse closes at dusk.", embedding=[0.0, -1.0])], DuplicatePolicy.OVERWRITE)
        assert ids(store.embedding_retrieval([0.0, 2.0])) == ["5", "1", "4", "2"]
        assert "3" in ids(store.search("Ada likes soup")) and store.embedding_retrieval([0.0, 2.0], top_k=0) == []


def test_deletions_delete_and_namespaces_and_other_programs_keep_apart(engine: Engine) -> None:
    ada, bob = Store(engine, "acme/ada"), Store(engine, "acme/bob")
    for store in (ada, bob):
        store.write_documents(DOCUMENTS)
    engine.documents("acme/ada").put("mine", {"content": "Ada rows, too."}, index=["content"])
    put_chat(engine, "acme/ada", "monday")
    assert ada.update_by_filter(filters("meta.year", "==", 2026), {"old": True}) == 2
    assert ada.delete_by_filter(filters("meta.old", "==", True)) == 2
    assert ids(ada.search("Ada rows on Thursday.")) == ["2"]
    ada.delete_all_documents()
    assert (ada.count_documents(), bob.count_documents(), bob.count_documents_by_filter(filters("meta.old", "==", True))) == (0, 3, 0)
    assert engine.documents("acme/ada").get("mine") and engine.history("acme/ada", "monday")


def test_a_pipeline_is_saved_and_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "m.redb")
    engine = Engine(path)
    pipeline = Pipeline()
    store = Store(engine, "n", path=path)
    store.write_documents(DOCUMENTS)
    pipeline.add_component("text", MnemonTextRetriever(store, filters("meta.year", "==", 2026), 1, FilterPolicy.MERGE))
    pipeline.add_component("vector", MnemonEmbeddingRetriever(store, top_k=1))
    saved = pipeline.dumps()
    for _ in range(2):
        loaded = Pipeline.loads(saved, allowed_modules=["mnemon.*"])
        assert loaded.dumps() == saved
        found = loaded.run({"text": {"query": "When does Ada row?"}, "vector": {"query_embedding": [0.0, 1.0]}})
        assert [ids(found[name]["documents"]) for name in ("text", "vector")] == [["1"], ["2"]]
        engine.close()
    loaded.get_component("text").document_store.engine.close()
    with pytest.raises(InvalidValueError, match="make the store with path="):
        Store(engine, "n").to_dict()


def test_what_is_wrong_is_refused(engine: Engine) -> None:
    store = Store(engine, "n")
    store.write_documents(DOCUMENTS)
    for call, text in [
        (lambda: store.write_documents([Document(id="x", content="x" * 2_000_000)]), "the maximum is 1048576"),
        (lambda: store.write_documents([Document(id="x", meta={"at": object()})]), "meta.at"),
        (lambda: store.filter_documents({"field": "meta.year"}), "Invalid filter syntax"),
        (lambda: store.filter_documents(filters("meta.year", "~", 1)), "Unknown comparison operator"),
        (lambda: store.write_documents(DOCUMENTS[0]), "takes a list"),  # type: ignore[arg-type]
        (lambda: store.delete_by_filter({}), "call delete_all_documents"),
        (lambda: store.delete_by_filter(None), "call delete_all_documents"),  # type: ignore[arg-type]
        (lambda: store.update_by_filter({}, {"old": True}), "which match all documents"),
        (lambda: MnemonTextRetriever(store).run("a", top_k=-1), "top_k is -1"),
        (lambda: MnemonTextRetriever(engine), "takes a MnemonDocumentStore, not Engine"),  # type: ignore[arg-type]
        (lambda: MnemonEmbeddingRetriever(store).run([]), "non-empty list of floats"),
    ]:
        with pytest.raises((MnemonError, ValueError, FilterError), match=text):
            call()  # type: ignore[no-untyped-call]
    assert store.count_documents() == 3


def test_of_writers_at_once_one_writes_a_document_and_all_updates_count(engine: Engine) -> None:
    def write(_: int) -> int:
        return Store(engine, "n").write_documents([Document(id="1", content="x")], DuplicatePolicy.SKIP)

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(write, range(32))) == 1
        every = filters("id", "==", "1")
        list(threads.map(lambda n: Store(engine, "n").update_by_filter(every, {f"field{n}": n}), range(32)))
    assert Store(engine, "n").filter_documents()[0].meta == {f"field{n}": n for n in range(32)}


@pytest.mark.asyncio
async def test_the_loop_goes_on_beside_a_search() -> None:
    embedder = SlowEmbedder()
    with Engine(embedder=embedder) as engine:
        store = Store(engine, "n")
        store.write_documents(DOCUMENTS)
        found = await beside(MnemonTextRetriever(store, top_k=1).run_async("Ada rows"), embedder)
        assert ids(found["documents"]) == ["1"]
        assert ids((await MnemonEmbeddingRetriever(store, top_k=1).run_async([0.0, 1.0]))["documents"]) == ["2"]
