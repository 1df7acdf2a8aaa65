"""What all adapters do: they read what other programs stored, take an engine with `await` or without, and name a missing framework."""

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.models.chatcmpl_converter import Converter
from agents.testing import ScriptedModel, assistant_message
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, convert_to_openai_messages
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

import mnemon
from mnemon import AsyncEngine, Engine, Message
from mnemon.anthropic import MnemonAsyncMemoryTool, MnemonMemoryTool
from mnemon.langchain import MnemonByteStore, MnemonCache, MnemonChatMessageHistory, MnemonEmbeddings, MnemonIndex
from mnemon.langchain import MnemonVectorStore as LangChainVectorStore
from mnemon.langgraph import MnemonSaver, MnemonStore
from mnemon.llama_index import MnemonBlock, MnemonChatStore, MnemonEmbedding, MnemonVectorStore
from mnemon.openai_agents import MnemonSession

NAMESPACE, SESSION = "acme/ada", "s"
PIXEL = "iVBORw0KGgo="
CALLS = [
    {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "boathouse"}},
    {"type": "tool_call", "id": "c2", "name": "ask", "arguments": "Tom"},
]
RESULTS = [
    {"type": "tool_result", "id": "c1", "content": "A red kayak."},
    {"type": "tool_result", "id": "c2", "content": ""},
]
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "name": "Ada", "content": "Where is my kayak?"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "It looks like this."},
            {"type": "image", "uri": "https://example.org/kayak.png"},
            {"type": "image", "uri": f"data:image/png;base64,{PIXEL}"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "I look."}, *CALLS]},
    {"role": "tool", "content": RESULTS},
    {"role": "assistant", "content": [{"type": "text", "text": " "}, {"type": "image", "uri": "https://example.org/found.png"}]},
    # With what other programs have under the keys that adapters use.
    {
        "role": "assistant",
        "content": "In the boathouse.",
        "metadata": {"openai_agents": 5, "langchain": {"response_metadata": {}}, "llama_index": "x"},
    },
]
for number, line in enumerate(CHAT):
    line |= {"id": f"m{number}", "session": SESSION}

ITEMS = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is my kayak?"},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "It looks like this."},
            {"type": "input_image", "image_url": "https://example.org/kayak.png", "detail": "auto"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        ],
    },
    {"role": "assistant", "content": "I look."},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "boathouse"}'},
    {"type": "function_call", "call_id": "c2", "name": "ask", "arguments": "Tom"},
    {"type": "function_call_output", "call_id": "c1", "output": "A red kayak."},
    {"type": "function_call_output", "call_id": "c2", "output": ""},
    {"role": "assistant", "content": "[image: https://example.org/found.png]"},
    {"role": "assistant", "content": "In the boathouse."},
]
OF_LANGCHAIN = [
    SystemMessage("Be kind.", id="m0"),
    HumanMessage("Where is my kayak?", name="Ada", id="m1"),
    HumanMessage(
        [
            {"type": "text", "text": "It looks like this."},
            {"type": "image", "url": "https://example.org/kayak.png"},
            {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        ],
        id="m2",
    ),
    AIMessage(
        "I look.",
        id="m3",
        tool_calls=[{"type": "tool_call", "id": "c1", "name": "look", "args": {"at": "boathouse"}}],
        invalid_tool_calls=[{"type": "invalid_tool_call", "id": "c2", "name": "ask", "args": "Tom", "error": None}],
    ),
    ToolMessage("A red kayak.", tool_call_id="c1"),
    ToolMessage("", tool_call_id="c2"),
    AIMessage("[image: https://example.org/found.png]", id="m5"),
    AIMessage("In the boathouse.", id="m6"),
]
OF_LLAMA_INDEX = [
    ChatMessage(role="system", content="Be kind."),
    ChatMessage(role="user", content="Where is my kayak?", additional_kwargs={"name": "Ada"}),
    ChatMessage(
        role="user",
        blocks=[
            TextBlock(text="It looks like this."),
            ImageBlock(url="https://example.org/kayak.png"),
            ImageBlock(image=PIXEL.encode(), image_mimetype="image/png"),
        ],
    ),
    ChatMessage(
        role="assistant",
        blocks=[
            TextBlock(text="I look."),
            ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"at": "boathouse"}),
            ToolCallBlock(tool_call_id="c2", tool_name="ask", tool_kwargs="Tom"),
        ],
    ),
    ChatMessage(
        role="tool", blocks=[TextBlock(text="A red kayak."), TextBlock(text="")], additional_kwargs={"tool_call_id": "c1"}
    ),
    ChatMessage(role="assistant", blocks=[TextBlock(text=" "), TextBlock(text="[image: https://example.org/found.png]")]),
    ChatMessage(role="assistant", content="In the boathouse."),
]


def by_put(path: Path) -> None:
    with Engine(path) as engine:
        engine.put(NAMESPACE, CHAT)


def by_memory(path: Path) -> None:
    with Engine(path) as engine:
        memory = engine.memory(NAMESPACE, SESSION)
        for message in CHAT:
            memory.put([message])


def by_import(path: Path) -> None:
    by_put(path.with_name("other.redb"))
    with Engine(path.with_name("other.redb")) as other, Engine(path) as engine:
        other.export(path.with_name("export.jsonl"))
        engine.import_from(path.with_name("export.jsonl"))


def by_the_command(path: Path) -> None:
    lines = path.with_name("messages.jsonl")
    lines.write_text("".join(json.dumps(message | {"namespace": NAMESPACE}) + "\n" for message in CHAT))
    ingest = [sys.executable, "-m", "mnemon", "ingest", "--db", path, lines]
    done = subprocess.run(ingest, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=[by_put, by_memory, by_import, by_the_command], ids=lambda route: route.__name__)
def filled(request: pytest.FixtureRequest, tmp_path: Path):
    request.param(tmp_path / "memory.redb")
    with Engine(tmp_path / "memory.redb") as engine:
        yield engine


def test_long_messages_come_back_whole_and_silent_ones_have_no_content() -> None:
    # Cut within a character of four bytes.
    long = "Ada rows. " + "\U0001f6a3" * 2**19
    messages = [
        HumanMessage(long),
        AIMessage(long, tool_calls=[{"id": "c1", "name": "write", "args": {"text": long}, "type": "tool_call"}]),
        ToolMessage(long, tool_call_id="c1"),
        AIMessage("", tool_calls=[{"id": str(n), "name": "look", "args": {}, "type": "tool_call"} for n in range(20_000)]),
        HumanMessage(" " * 2**20 + "Late."),
        HumanMessage(""),
    ]
    items: list[Any] = [
        {"role": "user", "content": long},
        {"type": "function_call", "call_id": "c1", "name": "write", "arguments": json.dumps({"text": long})},
        {"type": "function_call_output", "call_id": "c1", "output": long},
        {"type": "reasoning", "id": "r", "summary": []},
    ]
    with Engine() as engine:
        history, session = MnemonChatMessageHistory(engine, NAMESPACE, "h"), MnemonSession(engine, NAMESPACE, "s")
        history.add_messages(messages)
        asyncio.run(session.add_items(items))
        assert history.messages == messages and asyncio.run(session.get_items()) == items
        for name, placeholder in [("h", "(human)"), ("s", "(reasoning)")]:
            first, *_, silent = engine.history(NAMESPACE, name)
            assert long.startswith(first.text) and 2**20 - 4 < len(first.text.encode()) <= 2**20
            assert silent.content == []
            # As it was stored once.
            engine.put(NAMESPACE, [silent.to_dict() | {"content": placeholder}])
        assert history.messages == messages and asyncio.run(session.get_items()) == items


def test_a_session_of_the_agents_sdk_reads_what_others_stored(filled: Engine) -> None:
    async def main() -> None:
        session = MnemonSession(filled, NAMESPACE, SESSION)
        assert await session.get_items() == ITEMS
        for limit in range(len(ITEMS) + 2):
            assert await session.get_items(limit) == ITEMS[max(len(ITEMS) - limit, 0) :]
        # Models of the other kind of API take them too.
        assert Converter.items_to_messages(ITEMS)
        model = ScriptedModel([[assistant_message("Gladly.")]])
        await Runner.run(Agent(name="Atlas", model=model), "Thanks!", session=session, run_config=RunConfig(tracing_disabled=True))
        assert len(model.calls[-1].input) == len(ITEMS) + 1
        assert (await session.get_items())[: len(ITEMS)] == ITEMS
        for _ in range(2):
            await session.pop_item()
        for left in range(len(ITEMS), 0, -1):
            assert await session.pop_item() == ITEMS[left - 1]
            assert await session.get_items() == ITEMS[: left - 1]
        assert filled.history(NAMESPACE, SESSION) == [] and await session.pop_item() is None

    asyncio.run(main())


def test_a_history_of_langchain_reads_what_others_stored(filled: Engine) -> None:
    history = MnemonChatMessageHistory(filled, NAMESPACE, SESSION)
    assert history.messages == OF_LANGCHAIN
    assert len(convert_to_openai_messages(history.messages)) == len(OF_LANGCHAIN)
    history.add_messages([HumanMessage("Thanks!")])
    assert history.messages == [*OF_LANGCHAIN, HumanMessage("Thanks!")]


def test_a_chat_store_of_llama_index_reads_what_others_stored(filled: Engine) -> None:
    async def main() -> None:
        store = MnemonChatStore(engine=filled, namespace=NAMESPACE)
        assert await store.get_messages(SESSION) == OF_LLAMA_INDEX
        # The same after they were archived, and after the store wrote them itself.
        assert await store.archive_oldest_messages(SESSION, 3) == OF_LLAMA_INDEX[:3]
        assert await store.get_messages(SESSION, None) == OF_LLAMA_INDEX
        await store.set_messages(SESSION, OF_LLAMA_INDEX)
        assert await store.get_messages(SESSION) == OF_LLAMA_INDEX

    asyncio.run(main())


def test_what_another_program_changed_is_read_as_it_is_now() -> None:
    async def main() -> None:
        with Engine() as engine:
            agents, langchain = MnemonSession(engine, "n", "agents"), MnemonChatMessageHistory(engine, "n", "langchain")
            llama_index = MnemonChatStore(engine=engine, namespace="n")
            await agents.add_items([{"role": "developer", "content": "old"}])
            langchain.add_messages([HumanMessage("old", response_metadata={"tokens": 1})])
            await llama_index.add_message("llama", ChatMessage(role="user", content="old", additional_kwargs={"a": 1}))
            for session in ("agents", "langchain", "llama"):
                [message] = engine.history("n", session)
                assert message.metadata
                engine.put("n", [message.to_dict() | {"content": "new"}])
            assert await agents.get_items() == [{"role": "system", "content": "new"}]
            assert [message.content for message in langchain.messages] == ["new"]
            assert [message.content for message in await llama_index.get_messages("llama")] == ["new"]

    asyncio.run(main())


def test_what_an_adapter_stored_is_read_by_the_others_and_makes_prompts() -> None:
    async def main() -> None:
        with Engine() as engine:
            session = MnemonSession(engine, NAMESPACE, SESSION)
            items = [item for item in ITEMS[3:] if item.get("call_id") != "c2"]
            await session.add_items(items)
            read = MnemonChatMessageHistory(engine, NAMESPACE, SESSION).messages
            assert [message.type for message in read] == ["ai", "ai", "tool", "ai", "ai"]
            assert isinstance(read[1], AIMessage) and read[1].tool_calls[0]["args"] == {"at": "boathouse"}
            MnemonChatMessageHistory(engine, NAMESPACE, "copy").add_messages(read)
            assert await MnemonSession(engine, NAMESPACE, "copy").get_items() == items
            for source in (SESSION, "copy"):
                memory = engine.memory(NAMESPACE, f"prompt of {source}")
                memory.put([Message(m.content, m.role, name=m.name) for m in engine.history(NAMESPACE, source)])
                call, result = memory.get().to_openai()[-4:-2]
                assert call["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":"boathouse"}'}
                assert result == {"role": "tool", "tool_call_id": "c1", "content": "A red kayak."}

    asyncio.run(main())


def test_messages_of_blanks_and_results_without_text_come_back_as_they_were() -> None:
    with Engine() as engine:
        history = MnemonChatMessageHistory(engine, NAMESPACE, SESSION)
        messages = [HumanMessage(""), AIMessage("\n\n"), ToolMessage("", tool_call_id="c"), ToolMessage(" ", tool_call_id="c")]
        history.add_messages(messages)
        assert history.messages == messages


def test_searches_of_langchain_leave_out_documents_of_others() -> None:
    with Engine() as engine:
        engine.documents("n").put("note", {"text": "a red boat"})
        store = LangChainVectorStore(engine, "n")
        store.add_texts(["a blue boat"], [{"colour": "blue"}])
        assert [found.page_content for found in store.similarity_search("a red boat")] == ["a blue boat"]
        assert store.similarity_search("a red boat", filter={"colour": "red"}) == []
        assert MnemonIndex(engine=engine, namespace="n").invoke("boat") == store.similarity_search("boat")


def test_searches_read_beside_the_program_that_writes(tmp_path: Path) -> None:
    with Engine(tmp_path / "m.redb") as engine:
        MnemonStore(engine).put(("store",), "k", {"text": "a red boat"})
        LangChainVectorStore(engine, "chain").add_texts(["a red boat"])
        MnemonVectorStore(engine=engine, namespace="nodes").add([TextNode(text="a red boat")])
    with Engine(tmp_path / "m.redb", read_only=True) as engine:
        assert engine.pending()
        assert len(MnemonStore(engine).search(("store",), query="boat")) == 1
        assert len(LangChainVectorStore(engine, "chain").similarity_search("boat")) == 1
        assert len(MnemonVectorStore(engine=engine, namespace="nodes").query(VectorStoreQuery(query_str="boat")).nodes or []) == 1


ADAPTERS: list[tuple[Callable[..., Any], dict[str, str]]] = [
    (MnemonByteStore, {"namespace": "n"}),
    (MnemonCache, {"namespace": "n"}),
    (MnemonChatMessageHistory, {"namespace": "n", "session": "s"}),
    (MnemonEmbeddings, {}),
    (MnemonIndex, {"namespace": "n"}),
    (LangChainVectorStore, {"namespace": "n"}),
    (MnemonSaver, {}),
    (MnemonStore, {}),
    (MnemonBlock, {"namespace": "n"}),
    (MnemonChatStore, {"namespace": "n"}),
    (MnemonEmbedding, {}),
    (MnemonVectorStore, {"namespace": "n"}),
    (MnemonSession, {"namespace": "n", "session_id": "s"}),
    (MnemonMemoryTool, {"namespace": "n"}),
    (MnemonAsyncMemoryTool, {"namespace": "n"}),
    (AsyncEngine, {}),
]


@pytest.mark.parametrize(("adapter", "options"), ADAPTERS, ids=[f"{one.__module__}.{one.__name__}" for one, _ in ADAPTERS])
def test_an_adapter_takes_an_engine_with_await_or_without_and_refuses_others(
    adapter: Callable[..., Any], options: dict[str, str]
) -> None:
    with Engine() as engine:
        for given in (engine, AsyncEngine(engine)):
            assert adapter(engine=given, **options).engine is engine
        opening = AsyncEngine.open()
        for other in ("memory.redb", None, engine.memory("n", "s"), opening):
            with pytest.raises(TypeError, match=r"not (str|NoneType|Memory|coroutine): take mnemon.Engine\(path\) or await mnemon.AsyncEngine"):
                adapter(engine=other, **options)
        opening.close()


def test_every_adapter_is_tried() -> None:
    modules = [mnemon.anthropic, mnemon.langchain, mnemon.langgraph, mnemon.llama_index, mnemon.openai_agents]
    public = {found for module in modules for name, found in inspect.getmembers(module, inspect.isclass) if name.startswith("Mnemon")}
    assert public == {adapter for adapter, _ in ADAPTERS} - {AsyncEngine}


def test_texts_go_to_a_store_of_an_engine_with_await() -> None:
    with Engine() as engine:
        given = AsyncEngine(engine)
        store = LangChainVectorStore.from_texts(["a boat"], MnemonEmbeddings(given), engine=given, namespace="n")
        assert [found.page_content for found in store.similarity_search("boat")] == ["a boat"]
        assert MnemonIndex(engine=given, namespace="n").invoke("boat")[0] == Document("a boat", id=store.similarity_search("boat")[0].id)


def test_classes_with_await_take_their_like_and_refuse_others() -> None:
    with Engine() as engine:
        for plain, awaited in [
            (engine.documents("n"), mnemon.AsyncDocuments),
            (engine.memory("n", "s"), mnemon.AsyncMemory),
            (mnemon.Profile(engine, "n"), mnemon.AsyncProfile),
            (mnemon.Collection(engine, "n"), mnemon.AsyncCollection),
        ]:
            name = type(plain).__name__
            assert getattr(awaited(awaited(plain)), name.lower()) is plain  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=f"mnemon.{name} or mnemon.Async{name} is needed here, not Engine: take "):
                awaited(engine)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("adapter", "package", "module"),
    [
        ("anthropic", "anthropic", "anthropic"),
        ("openai_agents", "openai-agents", "agents"),
        ("langchain", "langchain-core", "langchain_core"),
        ("langgraph", "langgraph", "langgraph"),
        ("langgraph", "langgraph", "langchain_core"),
        ("llama_index", "llama-index-core", "llama_index"),
    ],
)
def test_a_missing_framework_is_named(adapter: str, package: str, module: str, tmp_path: Path) -> None:
    # A module of the same name in the program's folder hides a framework, which is as if it were not there.
    (tmp_path / f"{module}.py").touch()
    for blocked in ("", f"import sys; sys.modules[{module!r}] = None; "):
        command = [sys.executable, "-c", f"{blocked}import mnemon.{adapter}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(f"ImportError: mnemon.{adapter} needs the package {package}, ")
        extra = adapter.replace("_", "-")
        assert f"pip install 'mnemon-engine[{extra}]'" in last
        assert last.endswith(f"pip install -U {package}")
