"""LangGraph's store: what its own tests (`foreign/run.py`) do not ask."""

from pathlib import Path

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

import mnemon
from mnemon import Engine
from mnemon.langgraph import MnemonSaver, MnemonStore


def test_items_survive_a_restart_and_stay_apart_from_checkpoints_and_messages(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        store, other = MnemonStore(engine, fields=["text"]), MnemonStore(engine, prefix=("other",))
        store.put(("users", "ada"), "bike", {"text": "My bike is in the cellar.", "n": 1})
        other.put(("users", "ada"), "bike", {"text": "another"})
        engine.put("langgraph", [mnemon.Message("a message about the bike")])
        engine.documents("langgraph/store2").put("k", {"text": "bike"})
        MnemonSaver(engine).put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, *checkpoint())
    with Engine(tmp_path / "memory.redb") as engine:
        store = MnemonStore(engine)
        found = store.search((), query="where is the bicycle?")
        assert [(item.namespace, item.key, item.value["n"]) for item in found] == [(("users", "ada"), "bike", 1)]
        assert store.list_namespaces() == [("users", "ada")]


def checkpoint():
    from langgraph.checkpoint.base import empty_checkpoint

    return empty_checkpoint(), {"source": "input", "step": -1}, {}


def test_a_batch_reads_first_and_the_last_of_several_puts_counts() -> None:
    with Engine() as engine:
        store = MnemonStore(engine)
        ops = [
            PutOp(("a",), "k", {"n": 1}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", {"n": 2}),
            SearchOp(("a",)),
            ListNamespacesOp(),
        ]
        assert store.batch(ops) == [None, None, None, [], []]
        assert store.get(("a",), "k").value == {"n": 2}
        assert store.batch([]) == []


@pytest.mark.parametrize(("value", "index"), [({"text": "sold"}, False), ({"text": "sold"}, []), ({"note": "sold"}, None), ({"text": "sold"}, ["note"])])
def test_an_item_that_is_put_again_is_not_found_by_words_that_it_had(value: dict[str, str], index: list[str] | bool | None) -> None:
    with Engine() as engine:
        store = MnemonStore(engine, fields=["text"])
        store.put(("notes",), "hobby", {"text": "Ada rides her bicycle."})
        store.put(("notes",), "music", {"text": "Ada plays the piano."})
        assert store.search(("notes",), query="bicycle")[0].key == "hobby"
        store.put(("notes",), "hobby", value, index=index)
        assert "hobby" not in [item.key for item in store.search(("notes",), query="bicycle")]
        assert store.get(("notes",), "hobby").value == value


def test_odd_labels_keys_and_filters() -> None:
    with Engine() as engine:
        store = MnemonStore(engine)
        labels = ["a/b", "a%2Fb", "a\\b", "line\nbreak", "\u00e9", "x\x01y", "\\0a", "*"]
        for label in labels:
            store.put((label,), "k/ \u00e9", {"in": label, "a.b": {"c d": 1}})
        assert sorted(store.list_namespaces()) == sorted((label,) for label in labels)
        for label in labels:
            assert [item.value["in"] for item in store.search((label,))] == [label]
            assert store.get((label,), "k/ \u00e9").namespace == (label,)
        assert len(store.search((), filter={"a.b": {"c d": 1}})) == len(labels)
        assert store.search((), filter={"a": {"b": {"c d": 1}}}) == []
        assert len(store.search((), filter={"a.b": {"c d": {"$lt": float("inf")}}})) == len(labels)
        with pytest.raises(mnemon.InvalidDocumentError):
            store.put(("a",), "", {"n": 1})
