"""CrewAI's memory on an engine: what CrewAI's own tests (`foreign/run_frameworks.py`) do not ask."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from chats import SlowEmbedder, beside, put_chat
from crewai.llms.base_llm import BaseLLM
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

from mnemon import Engine, InvalidMessageError
from mnemon.crewai import MnemonStorage

NAMESPACE = "acme/crew"
NOW = datetime(2024, 5, 1, 9, 30)


class Silent(BaseLLM):
    """A model that nothing may ask: the memory is given all fields."""

    def call(self, *_: Any, **__: Any) -> str:
        raise AssertionError("the model was asked")


def record(id: str, scope: str = "/", *, vector: list[float] | None = None, days: int = 0, **fields: Any) -> MemoryRecord:
    fields = {"content": f"content of {id}", "created_at": NOW - timedelta(days=days), "embedding": vector} | fields
    return MemoryRecord(id=id, scope=scope, **fields)


def ids(found: Any) -> list[str]:
    return [one.id if isinstance(one, MemoryRecord) else one[0].id for one in found]


RECORDS = [
    record("root", "/", vector=[1.0, 0.0]),
    record("crew", "/crew", vector=[0.6, 0.8], categories=["a"], days=1),
    record("sales", "/crew/sales", vector=[0.0, 1.0], categories=["a", "b"], metadata={"who": {"name": "Ada"}}, days=2),
    record("crews", "/crews", vector=[-1.0, 0.0], categories=["b"], days=3),
    record("none", "/crew", metadata={"who": None}, source="ada", private=True, importance=0.9, days=4),
]


@pytest.fixture
def storage(engine: Engine) -> MnemonStorage:
    storage = MnemonStorage(engine, NAMESPACE)
    storage.save(RECORDS)
    return storage


def test_a_memory_remembers_after_a_restart_without_a_key_and_a_network(tmp_path: Path) -> None:
    def memory(engine: Engine, namespace: str = NAMESPACE) -> Memory:
        storage = MnemonStorage(engine, namespace)
        assert isinstance(storage, StorageBackend)
        return Memory(storage=storage, embedder=storage.embed, llm=Silent(model="none"))

    with Engine(tmp_path / "memory.redb") as engine:
        mine = memory(engine)
        for scope, text in [("/ada", "Ada rows on Thursday."), ("/ada", "The boathouse closes at dusk."), ("/bo", "Bo likes tea.")]:
            mine.remember(text, scope=scope, categories=["club"], importance=0.5)
        mine.close()
    with Engine(tmp_path / "memory.redb") as engine:
        mine = memory(engine)
        found = mine.recall("When does Ada row?", scope="/ada", depth="shallow", limit=2)
        assert [match.record.content for match in found] == ["Ada rows on Thursday.", "The boathouse closes at dusk."]
        assert engine.recall(NAMESPACE, "Who drinks tea?", k=1)[0].message.session == "/bo"
        assert mine.forget(scope="/ada") == 2 and mine.list_scopes("/") == ["/bo"]
        assert memory(engine, "acme/other").recall("tea", depth="shallow") == []
        engine.close()


def test_records_come_back_as_they_were(storage: MnemonStorage) -> None:
    for kept in RECORDS:
        read = storage.get_record(kept.id)
        assert read is not None and read == kept.model_copy(update={"embedding": kept.embedding and pytest.approx(kept.embedding)})
    odd = record("odd", "/ü/%_", content=" ", created_at=NOW.replace(tzinfo=UTC), metadata={"n": 2**40, "deep": [{"x": [None]}]})
    storage.save([odd])
    assert storage.get_record("odd") == odd and storage.get_record("other") is None
    changed = RECORDS[0].model_copy(update={"scope": "/moved", "content": "new"})
    storage.update(changed)
    assert storage.get_record("root") == changed and storage.count() == 6
    storage.touch_records(["root", "other"])
    touched = storage.get_record("root")
    assert touched is not None and touched.last_accessed > changed.last_accessed and touched.content == "new"
    storage.save([])


def test_searches_and_deletions_hold_to_all_criteria(storage: MnemonStorage) -> None:
    def scores(**criteria: Any) -> dict[str, float]:
        return {found.id: round(score, 6) for found, score in storage.search([2.0, 0.0], min_score=-1.0, **criteria)}

    assert scores() == {"root": 1.0, "crew": 0.6, "sales": 0.0, "none": 0.0, "crews": -1.0}
    assert list(scores(limit=2)) == ["root", "crew"] and scores(limit=0) == {}
    assert ids(storage.search([2.0, 0.0], min_score=0.1)) == ["root", "crew"]
    # A scope has what is below it, with a slash at its end and without one before it; and not what has its name at its beginning.
    for scope in ("/crew", "/crew/", "crew"):
        assert set(scores(scope_prefix=scope)) == {"crew", "sales", "none"}
    assert scores(scope_prefix="/cre") == {}
    assert set(scores(categories=["b"])) == {"sales", "crews"} and set(scores(categories=["b"], scope_prefix="/crew")) == {"sales"}
    assert set(scores(metadata_filter={"who": {"name": "Ada"}})) == {"sales"}
    assert storage.delete(categories=["a"], record_ids=["sales", "root"]) == 1
    assert storage.delete(older_than=NOW - timedelta(days=2), scope_prefix="/crew") == 1 and storage.get_record("none") is None
    assert storage.delete(older_than=(NOW - timedelta(days=2)).replace(tzinfo=UTC)) == 1
    assert storage.delete(record_ids=[]) == 0 and ids(storage.list_records()) == ["root", "crew"]
    assert storage.delete() == 2 and storage.count() == 0 and scores() == {}


def test_lists_are_of_a_scope_newest_first(storage: MnemonStorage) -> None:
    assert ids(storage.list_records()) == ["root", "crew", "sales", "crews", "none"]
    assert ids(storage.list_records("/crew", limit=1, offset=1)) == ["sales"]
    assert storage.list_scopes() == storage.list_scopes("") == ["/crew", "/crews"] and storage.list_scopes("/crew/") == ["/crew/sales"]
    assert storage.list_categories() == {"a": 2, "b": 2} and storage.list_categories("/crew") == {"a": 2, "b": 1}
    info = storage.get_scope_info("/crew/")
    assert (info.path, info.record_count, info.categories, info.child_scopes) == ("/crew", 3, ["a", "b"], ["/crew/sales"])
    assert (info.oldest_record, info.newest_record) == (RECORDS[4].created_at, RECORDS[1].created_at)
    assert storage.get_scope_info("/").record_count == 5 and storage.get_scope_info("/none").oldest_record is None
    storage.reset("/crew")
    assert ids(storage.list_records()) == ["root", "crews"]


def test_a_scope_is_the_same_in_every_spelling(engine: Engine) -> None:
    storage = MnemonStorage(engine, NAMESPACE)
    memory = Memory(storage=storage, embedder=storage.embed, llm=Silent(model="none"))
    spelled = ["club/rowers", "/club/rowers", "//club//rowers/", "", "club"]
    for scope in spelled:
        memory.remember(f"Ada rows {len(scope)} times.", scope=scope, categories=["a"], importance=0.5)
    storage.save([record(f"{at}", scope, vector=storage.embed(["Ada"])[0]) for at, scope in enumerate(spelled)])
    assert [found.scope for found in storage.list_records("/club/rowers")].count("//club//rowers/") == 2
    for scope, number in [("/club/rowers", 6), ("club/rowers/", 6), ("/club", 8), ("", 10), (None, 10)]:
        found = storage.search(storage.embed(["Ada"])[0], scope, limit=20, min_score=-1.0)
        assert len(found) == storage.count(scope) == number
    assert storage.list_scopes() == ["/club"] and storage.list_scopes("club") == ["/club/rowers"]
    moved = memory.update("3", scope="club")
    assert storage.get_record("3") == moved and storage.count("/club") == 9
    storage.reset("club/")
    assert storage.count() == 1 == len(engine.history(NAMESPACE, "/"))


def test_vectors_of_another_dimension_are_refused_until_all_is_deleted(storage: MnemonStorage) -> None:
    other = record("other", vector=[1.0, 0.0, 0.0])
    for call in [lambda: storage.save([RECORDS[0], other]), lambda: storage.update(other), lambda: storage.search([1.0, 0.0, 0.0])]:
        with pytest.raises(EmbeddingDimensionMismatchError, match="2-dimensional"):
            call()
    with pytest.raises(EmbeddingDimensionMismatchError, match="0-dimensional"):
        storage.search([])
    assert storage.count() == 5
    storage.reset("/crew")
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([other])
    storage.reset()
    storage.save([other])
    assert ids(storage.search([1.0, 0.0, 0.0])) == ["other"]


def test_what_others_stored_is_left_alone_and_what_they_changed_is_read(storage: MnemonStorage) -> None:
    put_chat(storage.engine, NAMESPACE, "/crew")
    assert storage.count() == 5 and len(storage.engine.history(NAMESPACE, "/crew")) > 5
    message = storage.engine.get(NAMESPACE, "root")
    assert message is not None
    storage.engine.put(NAMESPACE, [message.to_dict() | {"content": "Hidden."}])
    read = storage.get_record("root")
    assert read is not None and read.content == "Hidden."
    storage.reset()
    assert len(storage.engine.history(NAMESPACE, "/crew")) == 5


def test_bad_input_is_refused_and_nothing_is_stored(engine: Engine) -> None:
    storage = MnemonStorage(engine, NAMESPACE)
    no_json = [record("bad", metadata={"at": value}) for value in (float("nan"), NOW, {1}, 2**70)]
    for bad in [record("long", content="x" * 17_000_000), record("deep", "/" + "x" * 600), record("x" * 600), record(""), *no_json]:
        with pytest.raises(InvalidMessageError):
            storage.save([record("fine"), bad])
    assert storage.count() == 0


def test_many_threads_lose_nothing(engine: Engine) -> None:
    def save(at: int) -> None:
        storage = MnemonStorage(engine, NAMESPACE)
        for turn in range(10):
            storage.save([record(f"{at} {turn}", f"/{at}", vector=[float(at), 1.0])])
            storage.search([1.0, 0.0])
            storage.touch_records([f"{at} {turn}"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(8)))
    assert MnemonStorage(engine, NAMESPACE).count() == 80


def test_a_record_that_is_updated_and_touched_at_once_stays_whole(storage: MnemonStorage) -> None:
    with ThreadPoolExecutor(3) as pool:
        touches = [pool.submit(storage.touch_records, ["root"] * 100) for _ in range(3)]
        for turn in range(100):
            storage.update(record("root", content=f"{turn}", categories=[f"{turn}"], vector=[1.0, float(turn)]))
            time.sleep(0.0005)
            read = storage.get_record("root")
            assert read is not None and (read.categories, read.embedding) == ([f"{turn}"], [1.0, turn]) and read.content == f"{turn}"
        for touched in touches:
            touched.result()


def test_of_vectors_that_are_first_at_once_one_says_the_dimension(engine: Engine) -> None:
    def save(at: int) -> bool:
        try:
            MnemonStorage(engine, f"{at // 2}").save([record(f"{at}", vector=[1.0] * (1 + at % 2))])
            return True
        except EmbeddingDimensionMismatchError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(save, range(100))) == 50


@pytest.mark.asyncio
async def test_awaited_calls_do_not_hold_up_the_event_loop(storage: MnemonStorage) -> None:
    await storage.asave([record("more", "/more", vector=[1.0, 1.0])])
    assert ids(await storage.asearch([1.0, 1.0], "/more", limit=5)) == ["more"]
    assert await storage.adelete(record_ids=["more"]) == 1
    embedder = SlowEmbedder()
    with Engine(embedder=embedder) as engine:
        storage = MnemonStorage(engine, NAMESPACE)
        storage.search = lambda *_: storage.embed(["x"])  # type: ignore[method-assign,assignment,return-value]
        assert await beside(asyncio.ensure_future(storage.asearch([1.0, 0.0])), embedder)
