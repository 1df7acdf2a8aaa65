"""Values that are too long for a document, in the saver, the byte store and the cache: nothing of what they replace is left."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.outputs import Generation
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import ERROR

import mnemon
from mnemon import Engine
from mnemon.langchain import MnemonByteStore, MnemonCache
from mnemon.langgraph import MnemonSaver

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
# As base64 in seven, three and two parts, and in none.
LENGTHS = [2_500_000, 1_000_000, 400_000, 10]


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


def stored(engine: Engine) -> int:
    return sum(info["documents"] for info in engine.namespaces())


def shrinks(engine: Engine, store: Callable[[bytes], None], load: Callable[[], bytes]) -> None:
    """Stores ever shorter values, and checks that each is there and that as many documents are as without the ones before."""
    store(b"")
    documents = stored(engine)
    for length in LENGTHS:
        value = bytes([length % 251]) * length
        store(value)
        assert load() == value
    assert stored(engine) == documents


def test_a_state_that_is_put_again(engine: Engine) -> None:
    saver, checkpoint = MnemonSaver(engine), empty_checkpoint()
    shrinks(
        engine,
        lambda value: saver.put(CONFIG, checkpoint, {"value": value}, {}) and None,
        lambda: saver.get_tuple(CONFIG).metadata["value"],
    )
    assert [found.metadata["value"] for found in saver.list(CONFIG)] == [bytes([10]) * 10]


def test_a_channel_that_is_put_again(engine: Engine) -> None:
    saver, checkpoint = MnemonSaver(engine), empty_checkpoint()
    checkpoint["channel_versions"] = {"value": "1"}

    def store(values: dict[str, bytes]) -> None:
        checkpoint["channel_values"] = values
        saver.put(CONFIG, checkpoint, {}, {"value": "1"})

    shrinks(engine, lambda value: store({"value": value}), lambda: saver.get_tuple(CONFIG).checkpoint["channel_values"]["value"])
    documents = stored(engine)
    store({"value": bytes(LENGTHS[0])})
    store({})
    assert saver.get_tuple(CONFIG).checkpoint["channel_values"] == {}
    assert stored(engine) == documents - 1


def test_writes_that_are_replaced(engine: Engine) -> None:
    saver = MnemonSaver(engine)
    config = saver.put(CONFIG, empty_checkpoint(), {}, {})
    saver.put_writes(config, [(ERROR, bytes(10_000))], "task")
    shrinks(
        engine,
        lambda value: saver.put_writes(config, [(ERROR, value)], "task"),
        lambda: saver.get_tuple(config).pending_writes[0][2],
    )


def test_a_thread_that_another_is_copied_into(engine: Engine) -> None:
    saver, checkpoint = MnemonSaver(engine), empty_checkpoint()
    for thread, length in [("t", 10), ("other", 2_500_000)]:
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        saver.put(config, checkpoint, {"value": bytes(length)}, {})
    saver.copy_thread("t", "other")
    assert saver.get_tuple(config).metadata["value"] == bytes(10)
    assert stored(engine) == 4


def test_bytes_of_a_key(engine: Engine) -> None:
    store = MnemonByteStore(engine, "store")
    shrinks(engine, lambda value: store.mset([("key", value)]), lambda: store.mget(["key"])[0])


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_answers_of_a_prompt(engine: Engine) -> None:
    cache = MnemonCache(engine, "cache")
    shrinks(
        engine,
        lambda value: cache.update("prompt", "settings", [Generation(text=value.decode("latin-1"))]),
        lambda: cache.lookup("prompt", "settings")[0].text.encode("latin-1"),
    )


def test_keys_with_any_character(engine: Engine) -> None:
    store, keys = MnemonByteStore(engine, "store"), [f"a{chr(code)}b" for code in [*range(256), 0x2028, 0x1F600]]
    store.mset([(key, key.encode()) for key in keys])
    assert store.mget(keys) == [key.encode() for key in keys]


def test_of_writers_at_the_same_time_one_is_the_last(engine: Engine) -> None:
    store, failures = MnemonByteStore(engine, "store"), []
    for _ in range(10):
        together = threading.Barrier(len(LENGTHS) + 1)

        def write(length: int, together: threading.Barrier = together) -> None:
            try:
                together.wait()
                if length:
                    store.mset([("key", bytes([length % 251]) * length)])
                else:
                    store.mdelete(["key"])
            except BaseException as failure:
                failures.append(failure)

        writers = [threading.Thread(target=write, args=(length,)) for length in [0, *LENGTHS]]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        [value] = store.mget(["key"])
        assert not failures and value in (None, *(bytes([length % 251]) * length for length in LENGTHS))
        store.mdelete(["key"])
        assert stored(engine) == 0


def test_a_part_that_is_missing_is_an_error(engine: Engine) -> None:
    store = MnemonByteStore(engine, "store")
    store.mset([("key", bytes(1_000_000))])
    part = next(document for document in engine.documents("store").search() if "of" in document.value and "text" in document.value)
    engine.documents("store").delete(part.key)
    with pytest.raises(mnemon.CorruptedError, match="missing"):
        store.mget(["key"])
    store.mset([("key", b"small")])
    assert store.mget(["key"]) == [b"small"] and stored(engine) == 1
