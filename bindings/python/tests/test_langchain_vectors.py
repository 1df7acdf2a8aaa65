"""LangChain's standard tests for vector stores and embeddings, all of the suites, and what they do not ask."""

import uuid
from pathlib import Path
from typing import Any

import numpy
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

import mnemon
from mnemon import Engine, GivenVectors
from mnemon.langchain import MnemonEmbeddings, MnemonIndex, MnemonVectorStore, langchain_embedder

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning"),
    # Sync tests of a suite carry the mark too.
    pytest.mark.filterwarnings("ignore:The test .* is marked with '@pytest.mark.asyncio'"),
]

BOATS = ["The red boat is fast.", "The red boat is very fast.", "My boat needs a new sail.", "Bread is baked at night."]


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        with Engine(embedder=langchain_embedder(self.get_embeddings(), name="suite")) as engine:
            yield MnemonVectorStore(engine, "vectors")


class TestVectorStoreOfGivenVectors(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        with Engine(embedder=GivenVectors("suite", 6)) as engine:
            yield MnemonVectorStore(engine, "vectors", self.get_embeddings())


class Embeddings:
    engine = None

    @pytest.fixture(autouse=True)
    def opened(self):
        with Engine() as engine:
            Embeddings.engine = engine
            yield

    @property
    def embeddings_class(self) -> type[MnemonEmbeddings]:
        return MnemonEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"engine": Embeddings.engine}


class TestEmbeddingsUnit(Embeddings, EmbeddingsUnitTests):
    pass


class TestEmbeddings(Embeddings, EmbeddingsIntegrationTests):
    pass


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


@pytest.fixture
def store(engine: Engine) -> MnemonVectorStore:
    store = MnemonVectorStore(engine, "n")
    store.add_texts(BOATS, [{"n": at, "kind": "bread" if at == 3 else "boat"} for at in range(4)], ids=list("abcd"))
    return store


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


async def test_every_search_filters(store: MnemonVectorStore) -> None:
    bread, small = {"kind": "bread"}, {"n": {"$lt": 2}}
    assert ids(store.similarity_search("a fast boat", filter=bread)) == ["d"]
    assert ids(await store.asimilarity_search("bread", k=9, filter=bread)) == ["d"]
    assert {document.id for document, _ in store.similarity_search_with_score("bread", filter=small)} == {"a", "b"}
    assert {document.id for document, _ in await store.asimilarity_search_with_score("bread", filter=small)} == {"a", "b"}
    assert set(ids(store.max_marginal_relevance_search("bread", filter=small))) == {"a", "b"}
    assert set(ids(await store.amax_marginal_relevance_search("bread", k=1, filter=bread))) == {"d"}
    assert {document.id for document, _ in store.similarity_search_with_relevance_scores("bread", filter=small)} == {"a", "b"}
    assert store.similarity_search("boat", filter={"kind": "car"}) == []
    assert store.max_marginal_relevance_search("boat", filter={"kind": "car"}) == []
    assert store.similarity_search_with_relevance_scores("boat", filter={"kind": "car"}) == []
    retriever = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "filter": small})
    assert set(ids(retriever.invoke("boat"))) == set(ids(await retriever.ainvoke("boat"))) == {"a", "b"}
    with pytest.raises(mnemon.InvalidFilterError):
        store.similarity_search("boat", filter={"n": {"$near": 2}})
    with pytest.raises(TypeError, match="where"):
        store.similarity_search("boat", where=small)


async def test_scores_fall_and_relevance_is_the_cosine(store: MnemonVectorStore) -> None:
    found = store.similarity_search_with_score("a fast red boat", k=4)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert found[0][1] > found[-1][1] and found == await store.asimilarity_search_with_score("a fast red boat", k=4)
    assert [document for document, _ in found] == store.similarity_search("a fast red boat")
    relevant = dict((document.id, score) for document, score in store.similarity_search_with_relevance_scores("a fast red boat"))
    query, *vectors = store.embeddings.embed_documents(["a fast red boat", *BOATS])
    cosines = {id: max(0.0, numpy.dot(query, vector)) for id, vector in zip("abcd", vectors, strict=True)}
    assert relevant == pytest.approx(cosines, abs=2e-3) and relevant["b"] > 0.6 > 0.3 > relevant["d"]
    best = {"search_type": "similarity_score_threshold", "search_kwargs": {"score_threshold": 0.6, "k": 4}}
    assert set(ids(await store.as_retriever(**best).ainvoke("a fast red boat"))) == {"a", "b"}


async def test_marginal_relevance_leaves_out_what_says_the_same(store: MnemonVectorStore) -> None:
    assert set(ids(store.similarity_search("a fast red boat", k=2))) == {"a", "b"}
    diverse = store.max_marginal_relevance_search("a fast red boat", k=2, lambda_mult=0.1)
    assert len({"a", "b"} & set(ids(diverse))) == 1
    assert ids(diverse) == ids(await store.amax_marginal_relevance_search("a fast red boat", k=2, lambda_mult=0.1))
    assert set(ids(store.max_marginal_relevance_search("a fast red boat", k=2, lambda_mult=1))) == {"a", "b"}
    assert len(store.max_marginal_relevance_search("a fast red boat", k=9, fetch_k=3)) == 3


async def test_the_index_and_the_messages_of_the_namespace(engine: Engine, store: MnemonVectorStore) -> None:
    engine.put("n", [mnemon.Message("A message about a boat.")])
    documents = MnemonIndex(engine=engine, namespace="n", k=1)
    assert documents.get(["a"]) == store.get_by_ids(["a"]) == [Document(BOATS[0], id="a", metadata={"n": 0, "kind": "boat"})]
    documents.upsert(iter([Document("The kettle is blue.", id="e")]))
    assert store.similarity_search("kettle", k=1) == documents.invoke("kettle") == [Document("The kettle is blue.", id="e")]
    engine.documents(store.namespace).put("mine", {"of": "another program"})
    assert store.delete(iter(["e", "none"])) and ids(documents.get(["e", "d"])) == ["d"]
    assert await store.adelete() and documents.get(list("abcd")) == store.similarity_search("boat") == []
    assert engine.documents(store.namespace).get("mine")
    assert [(one["messages"], one["documents"]) for one in engine.namespaces()] == [(1, 1)]


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    model = langchain_embedder(DeterministicFakeEmbedding(size=6), name="fake")
    with Engine(tmp_path / "memory.redb", embedder=model) as engine:
        MnemonVectorStore(engine, "n").add_documents([Document(text, id=text, metadata={"m": [1, None]}) for text in BOATS])
    with Engine(tmp_path / "memory.redb", embedder=model) as engine:
        store = MnemonVectorStore(engine, "n")
        assert store.similarity_search(BOATS[2], k=1) == [Document(BOATS[2], id=BOATS[2], metadata={"m": [1, None]})]
        # The vectors of the other model, at length 1.
        vector, expected = store.embeddings.embed_query("x"), DeterministicFakeEmbedding(size=6).embed_query("x")
        assert numpy.allclose(numpy.multiply(vector, numpy.linalg.norm(expected)), expected, rtol=1e-4)
    with pytest.raises(mnemon.ModelMismatchError):
        Engine(tmp_path / "memory.redb", embedder=langchain_embedder(DeterministicFakeEmbedding(size=7), name="other"))


async def test_texts_need_as_many_metadatas_and_ids(store: MnemonVectorStore) -> None:
    assert store.add_texts((text for text in ["x", "y"]), ids=["x", None])[0] == "x"
    assert len(await store.aadd_texts(["x"], [{"a": 1}])) == 1
    for options in [{"metadatas": [{}]}, {"ids": ["x"]}]:
        with pytest.raises(ValueError, match="as many"):
            store.add_texts(["x", "y"], **options)


async def test_a_store_is_made_of_texts_with_the_engines_own_model(engine: Engine) -> None:
    options = {"engine": engine, "namespace": "n"}
    MnemonVectorStore.from_texts(["red"], None, [{"a": 1}], ids=["1"], **options)
    await MnemonVectorStore.afrom_texts(["blue"], MnemonEmbeddings(engine), ids=["2"], **options)
    store = MnemonVectorStore.from_documents([Document("green", id="3")], MnemonEmbeddings(engine), **options)
    assert store.get_by_ids(["1", "2", "3"]) == await store.aget_by_ids(["1", "2", "3"])
    assert ids(store.get_by_ids(["1", "2", "3"])) == ["1", "2", "3"]
    with Engine() as other:
        for embedding in [DeterministicFakeEmbedding(size=6), MnemonEmbeddings(other)]:
            with pytest.raises(mnemon.InvalidDocumentError, match="give none, or make a database of given vectors"):
                MnemonVectorStore.from_texts(["red"], embedding, **options)
    with pytest.raises(TypeError, match="collection"):
        MnemonVectorStore.from_texts(["red"], None, collection="n", **options)


def test_langchains_indexing_deletes_what_is_gone(engine: Engine) -> None:
    store, records = MnemonVectorStore(engine, "n"), InMemoryRecordManager(namespace="n")
    records.create_schema()
    options = {"cleanup": "full", "source_id_key": "from", "key_encoder": "sha256"}
    documents = [Document(text, metadata={"from": str(uuid.uuid4())}) for text in BOATS]
    assert index(documents, records, store, **options)["num_added"] == 4
    assert index(documents[:2], records, store, **options) == {"num_added": 0, "num_updated": 0, "num_skipped": 2, "num_deleted": 2}
    assert sorted(document.page_content for document in store.similarity_search("boat", k=9)) == sorted(BOATS[:2])


async def test_vectors_are_given(tmp_path: Path) -> None:
    rows = [("a boat", [3.0, 4.0]), ("a kite", [0.0, 1.0]), ("", [1.0, 0.0])]
    with Engine(tmp_path / "memory.redb", embedder=GivenVectors("axes", 2)) as engine:
        options: dict[str, Any] = {"engine": engine, "namespace": "n"}
        MnemonVectorStore.from_embeddings(rows, None, [{"n": at} for at in range(3)], ids=list("abc"), **options)
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonVectorStore(engine, "n")
        assert ids(store.similarity_search_by_vector([2.0, 0.0], k=2)) == ["c", "a"]
        assert ids(await store.asimilarity_search_by_vector([2.0, 0.0], k=2, filter={"n": {"$lt": 2}})) == ["a", "b"]
        assert ids(store.max_marginal_relevance_search_by_vector([1.0, 1.0], k=2, lambda_mult=0)) in (["a", "c"], ["a", "b"])
        # By its words, as there is no model.
        assert ids(store.similarity_search("kite", k=1)) == ["b"]
        with pytest.raises(mnemon.EmbeddingError, match="given"):
            store.max_marginal_relevance_search("kite")
        store.add_embeddings([("a boat", numpy.array([0, -1], dtype=numpy.float32))], ids=["a"])
        assert ids(store.similarity_search_by_vector(numpy.array([0.0, -2.0]), k=1)) == ["a"]
        with pytest.raises(mnemon.InvalidDocumentError, match="3 components"):
            store.add_embeddings([("a boat", [1.0, 0.0, 0.0])])


def test_models_of_langchain_give_vectors() -> None:
    model = DeterministicFakeEmbedding(size=6)
    with Engine(embedder=GivenVectors("fake", 6)) as engine:
        store = MnemonVectorStore.from_texts(BOATS, model, ids=list("abcd"), engine=engine, namespace="n")
        vector = model.embed_query(BOATS[3])
        assert ids(store.similarity_search_by_vector(vector, k=1)) == ids(store.similarity_search(BOATS[3], k=1)) == ["d"]
        [(document, relevance), *_] = store.similarity_search_with_relevance_scores(BOATS[3])
        assert document.id == "d" and relevance == pytest.approx(1, abs=2e-3)
