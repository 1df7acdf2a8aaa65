"""Rerankers, blocks, token counters and chat models that are written in Python."""

import json
import logging
import threading
import traceback
from pathlib import Path

import pytest

import mnemon
from mnemon import BlockContent, Engine, Message, Query

NAMESPACE = "acme/ada"


class Longest:
    name = "longest"

    def rerank(self, query, passages):
        return [float(len(passage)) for passage in passages]


def test_a_reranker_orders_the_hits() -> None:
    assert isinstance(Longest(), mnemon.Reranker)
    with Engine(reranker=Longest()) as engine:
        engine.put(NAMESPACE, [Message("a boat" + f" number {i}" * i) for i in range(5)])
        engine.flush()
        lengths = [len(hit.message.text) for hit in engine.recall(NAMESPACE, Query("which boat?", rerank=10))]
        assert lengths == sorted(lengths, reverse=True) and len(lengths) == 5


def test_what_a_reranker_raises_is_the_cause() -> None:
    class Failing:
        name = "failing"

        def rerank(self, query, passages):
            raise RuntimeError("out of order")

    with Engine(reranker=Failing()) as engine:
        engine.put(NAMESPACE, [Message("a boat")])
        engine.flush()
        with pytest.raises(mnemon.RerankingError, match="failing.*out of order") as caught:
            engine.recall(NAMESPACE, Query("a boat", rerank=10))
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert "in rerank" in "".join(traceback.format_exception(caught.value))
        assert len(engine.recall(NAMESPACE, "a boat")) == 1


class Counting:
    """Counts messages, and tells of them."""

    name = "counted"
    priority = 1
    scope = "namespace"

    def __init__(self):
        self.threads = set()

    def put(self, state, batch):
        self.threads.add(threading.current_thread().name)
        assert batch.number >= 0 and all(isinstance(message, Message) for message in batch.messages)
        return {"seen": (state or {"seen": 0})["seen"] + len(batch.messages)}

    def get(self, state, query):
        (hit,) = query.recall("boat", k=1)
        assert query.namespace == NAMESPACE and len(query.batch_of(hit.message)) == 2
        return f"{state['seen']} messages in {query.session}, of which {hit.message.text!r}"


def test_a_block_has_a_state_and_content(tmp_path: Path) -> None:
    block = Counting()
    assert isinstance(block, mnemon.Block)
    with Engine(tmp_path / "memory.redb") as engine:
        earlier = engine.memory(NAMESPACE, "earlier")
        earlier.put([Message("I have a boat."), Message("Nice.", "assistant")])
        earlier.flush()
        memory = engine.memory(NAMESPACE, "s", blocks=[block], tokens="approximate")
        memory.put([Message("I row."), Message("Nice.", "assistant")])
        memory.flush()
        memory.settle()
        assert memory.block_state("counted") == {"seen": 2}
        assert [(block["name"], block["state"]) for block in engine.blocks(NAMESPACE)] == [("counted", {"seen": 2})]
        memory.change_block("counted", lambda state: {"seen": state["seen"] + 40})
        prompt = "\n".join(message.text for message in memory.assemble(Message("hello")).messages)
        assert "42 messages in s, of which" in prompt and "I have a boat." in prompt
        assert memory.status() == [{"name": "counted", "behind": 0, "failed": [], "retrying": None}]
        with pytest.raises(mnemon.BlockError) as caught:
            memory.change_block("counted", lambda state: 1 / 0)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert threading.current_thread().name not in block.threads
    with Engine(tmp_path / "memory.redb") as engine:
        assert engine.memory(NAMESPACE, "other", blocks=[block]).block_state("counted") == {"seen": 42}


def test_a_block_that_fails_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        name = "failing"

        def get(self, state, query):
            raise KeyError("no such thing")

    with Engine() as engine, caplog.at_level(logging.WARNING, "mnemon"):
        memory = engine.memory(NAMESPACE, "s", blocks=[Failing(), mnemon.StaticBlock("about", "You are Atlas.")])
        prompt = memory.get(Message("hello"))
        assert "Atlas" in prompt.messages[0].text
        assert [failed["name"] for failed in prompt.to_dict()["failed"]] == ["failing"]
        assert "block 'failing' failed" in caplog.text and "in get" in caplog.text and "KeyError" in caplog.text


def test_a_block_gives_any_content_and_shortens_it() -> None:
    class Told:
        name = "told"
        priority = 1

        def __init__(self, content):
            self.content = content

        def get(self, state, query):
            return self.content

        def truncate(self, content, tokens):
            assert content.kind == "quoted" and tokens > 0
            return BlockContent.quoted(content.value[:1])

    def prompt(content, limit=1000):
        with Engine() as engine:
            memory = engine.memory(NAMESPACE, "s", blocks=[Told(content)], token_limit=limit, token_flush_size=100, tokens="approximate")
            memory.put([Message("hello")])
            return memory.get()

    told = [Message("first"), Message("second", "assistant")]
    assert [message.text for message in prompt(BlockContent.messages(told)).messages] == ["first", "second", "hello"]
    assert "first" in prompt(BlockContent.quoted(told)).messages[0].text
    assert "a part" in prompt(BlockContent.parts([{"type": "text", "text": "a part"}])).messages[0].text
    short = prompt(BlockContent.quoted([Message("first"), Message("word " * 1000)]), limit=200)
    assert short.to_dict()["shortened"] == ["told"] and "first" in short.messages[0].text and short.tokens <= 200
    with Engine() as engine, pytest.raises(TypeError, match="help\\(mnemon.Block\\)"):
        engine.memory(NAMESPACE, "s", blocks=[object()])


def test_hits_of_a_vector_block_may_be_processed() -> None:
    with Engine() as engine:
        engine.put(NAMESPACE, [Message(f"a {colour} boat", session="earlier") for colour in ("red", "blue", "green")])
        engine.flush()
        only_red = mnemon.VectorBlock("boats", process=lambda hits: [hit for hit in hits if "red" in hit.message.text])
        text = engine.memory(NAMESPACE, "s", blocks=[only_red]).get(Message("which boats?")).messages[0].text
        assert "red" in text and "blue" not in text and "green" not in text


def test_tokens_are_counted_by_a_function() -> None:
    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s", tokens=lambda text: len(text.split()))
        memory.put([Message("three short words")])
        words = memory.get().tokens
        memory.put([Message("one")])
        assert memory.get().tokens - words < 10


def test_what_a_token_counter_raises_is_the_cause() -> None:
    failing = threading.Event()

    def count(text):
        if failing.is_set():
            raise ValueError("cannot count")
        return 1

    with Engine() as engine:
        memory = engine.memory(NAMESPACE, "s", tokens=count)
        memory.put([Message("stored", id="m1")])
        failing.set()
        with pytest.raises(mnemon.PanickedError, match="the token counter raised ValueError: cannot count") as caught:
            memory.put([Message("stored too", id="m2")])
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(mnemon.PanickedError) as caught:
            memory.assemble(Message("hello"))
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(mnemon.PanickedError) as caught:
            engine.memory(NAMESPACE, "s", tokens=count)
        assert isinstance(caught.value.__cause__, ValueError)
        failing.clear()
        assert [message.id for message in memory.history()] == ["m1", "m2"] and memory.get().tokens > 0
        with pytest.raises(TypeError, match="function of a text"):
            engine.memory(NAMESPACE, "u", tokens=7)


def test_a_chat_model_keeps_facts_and_a_summary() -> None:
    requests = []

    def model(request):
        requests.append(request)
        assert request.messages[0].role == "system" and isinstance(request.to_openai(), list)
        if "summary" in request.messages[0].text.lower():
            return Message("Ada has a boat.", "assistant")
        return '{"facts": ["Ada rows."]}'

    with Engine() as engine:
        blocks = [mnemon.FactBlock("facts", model, max_facts=5), mnemon.SummaryBlock("summary", model, priority=1)]
        memory = engine.memory(NAMESPACE, "s", blocks=blocks)
        memory.put([Message("I row, and I have a boat."), Message("Nice.", "assistant")])
        memory.flush()
        memory.settle()
        assert [status["failed"] for status in memory.status()] == [[], []], memory.status()
        text = memory.get(Message("hello")).messages[0].text
        assert "Ada rows." in text and "Ada has a boat." in text and len(requests) == 2


def test_a_chat_model_keeps_a_profile_and_a_collection() -> None:
    def model(request):
        if "merge patch" in request.messages[0].text:
            return '{"city": "Lyon", "plan": null}'
        return {"role": "assistant", "content": json.dumps({"insert": [{"text": "Ada rows on Thursdays."}]})}

    with Engine() as engine:
        profile = mnemon.Profile(engine, NAMESPACE)
        assert profile.get() == {} and profile.patch({"name": "Ada", "plan": "moving"})["plan"] == "moving"
        said = [Message("I moved to Lyon. I row on Thursdays now.")]
        assert profile.update(said, model) == {"name": "Ada", "city": "Lyon"}
        facts = mnemon.Collection(engine, f"{NAMESPACE}/facts", index=["text"])
        key = facts.add({"text": "Ada lives in Lyon."})
        report = facts.update(said, model)
        assert len(report["inserted"]) == 1 and not report["repeated"] and facts.update(said, model)["repeated"]
        engine.flush()
        assert facts.search("rowing", limit=1)[0].value == {"text": "Ada rows on Thursdays."}
        assert facts.get(key).value["text"] == "Ada lives in Lyon." and facts.delete(key) and facts.get(key) is None
        blocks = [mnemon.ProfileBlock("profile", profile, model), mnemon.CollectionBlock("facts", facts, model)]
        text = engine.memory(NAMESPACE, "s", blocks=blocks).get(Message("when does she row?")).messages[0].text
        assert "city: Lyon" in text and "Ada rows on Thursdays." in text
        with pytest.raises(mnemon.InvalidDocumentError):
            facts.add({"title": "no text"})
    with pytest.raises(mnemon.ClosedError):
        profile.get()


def test_what_a_chat_model_raises_is_the_cause() -> None:
    def model(request):
        raise ConnectionError("no network")

    with Engine() as engine:
        with pytest.raises(mnemon.ChatError, match="no network") as caught:
            mnemon.Profile(engine, NAMESPACE).update([Message("hello")], model)
        assert isinstance(caught.value.__cause__, ConnectionError) and "in model" in "".join(
            traceback.format_exception(caught.value)
        )
        with pytest.raises(TypeError, match="chat model"):
            mnemon.FactBlock("facts", "gpt")


def test_a_chat_model_says_whether_it_may_succeed_later() -> None:
    def asked(error):
        def model(request):
            raise error

        with Engine() as engine, pytest.raises(mnemon.ChatError) as caught:
            mnemon.Profile(engine, NAMESPACE).update([Message("hello")], model)
        return str(caught.value)

    final = ValueError("no such model")
    final.transient = False  # type: ignore[attr-defined]
    assert "will fail again" in asked(final) and "will fail again" not in asked(ValueError("busy"))
