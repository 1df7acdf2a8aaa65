"""The memory of AutoGen's agents in an engine."""

import asyncio
from pathlib import Path
from typing import Any

import autogen_core
import pytest
from autogen_core import CancellationToken
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage
from chats import SlowEmbedder, beside, put_chat
from PIL import Image

from mnemon import Engine, InvalidMessageError, InvalidValueError
from mnemon.autogen import MnemonMemory

pytestmark = pytest.mark.asyncio


def text(said: str, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=said, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


async def found(memory: Memory, query: str, **options: Any) -> list[Any]:
    return [one.content for one in (await memory.query(query, **options)).results]


async def test_contents_of_every_kind_survive_reopening(tmp_path: Path) -> None:
    picture = autogen_core.Image.from_pil(Image.new("RGB", (2, 2), "red"))
    contents: list[Any] = ["Ada rows.", {"deep": [1, 2**70]}, b"\x00\xff", picture, " ", ""]
    with Engine(tmp_path / "m.redb") as engine:
        for content in contents:
            await MnemonMemory(engine, "acme/ada").add(MemoryContent(content=content, mime_type="text/x-note", metadata={"a": [1]}))
    with Engine(tmp_path / "m.redb") as engine:
        results = (await MnemonMemory(engine, "acme/ada").query("anything")).results
    assert all(one.metadata and one.metadata["a"] == [1] and isinstance(one.metadata["score"], float) for one in results)
    assert {one.mime_type for one in results} == {"text/x-note"}
    # A type of AutoGen's stays one, and a text a text.
    with Engine() as engine:
        for mime in [*MemoryMimeType, "text/plain"]:
            await MnemonMemory(engine, "acme/ada").add(MemoryContent(content=f"of {mime}", mime_type=mime))
        for one in (await MnemonMemory(engine, "acme/ada").query("of any")).results:
            assert one.content == f"of {one.mime_type}"
    assert [one.content for one in results if isinstance(one.content, dict)] == [contents[1]]
    assert [one.content.to_base64() for one in results if isinstance(one.content, autogen_core.Image)] == [picture.to_base64()]
    assert {one.content for one in results if isinstance(one.content, str | bytes)} == {"Ada rows.", b"\x00\xff", " ", ""}


async def test_queries_are_of_the_session_or_of_all_and_users_are_walls(engine: Engine) -> None:
    memory, bob = MnemonMemory(engine, "acme/ada", k=1), MnemonMemory(engine, "acme/bob")
    await memory.add(text("Ada rows on Thursday.", topic="sport"))
    await memory.add(text("Ada likes soup.", topic="food"))
    put_chat(engine, "acme/ada", "monday")
    assert await found(memory, "When does she row?") == ["Ada rows on Thursday."]
    assert set(await found(memory, "Ada", k=10)) == {"Ada rows on Thursday.", "Ada likes soup."}
    assert await found(memory, "Ada", k=10, where={"autogen.metadata.topic": "food"}) == ["Ada likes soup."]
    assert len(await found(memory, "Ada", k=10, where={"autogen.mime_type": "text/plain"})) == 2
    assert await found(memory, "the red kayak in the boathouse", session=None) != await found(memory, "the red kayak in the boathouse")
    assert [hit.message.text for hit in engine.recall("acme/ada", "soup", k=1)] == ["Ada likes soup."]
    assert await found(bob, "When does Ada row?") == await found(memory, " ") == []
    picture = autogen_core.Image.from_pil(Image.new("RGB", (2, 2), "red"))
    for content in (picture, b"Ada"):
        assert (await memory.query(MemoryContent(content=content, mime_type="*"))).results == []
    with pytest.raises(TypeError, match="nonsense"):
        await memory.query("x", nonsense=1)


async def test_the_context_gets_what_its_last_message_recalls(engine: Engine) -> None:
    memory = MnemonMemory(engine, "acme/ada", k=1)
    context = UnboundedChatCompletionContext()
    assert (await memory.update_context(context)).memories.results == []
    await context.add_message(UserMessage(content="When does Ada row?", source="user"))
    assert (await memory.update_context(context)).memories.results == []
    assert len(await context.get_messages()) == 1
    await memory.add(text("Ada rows on Thursday."))
    [result] = (await memory.update_context(context)).memories.results
    last = (await context.get_messages())[-1]
    assert result.content == "Ada rows on Thursday."
    assert isinstance(last, SystemMessage) and last.content == "Relevant memories, best first:\n1. Ada rows on Thursday."


async def test_the_context_has_a_memory_once(engine: Engine) -> None:
    memory = MnemonMemory(engine, "acme/ada", k=3)
    rows = "Ada rows:\n(on Thursday) 5.5 km"
    await memory.add(text(rows))
    context, short = UnboundedChatCompletionContext(), BufferedChatCompletionContext(buffer_size=2)
    for number in range(3):
        for one in (context, short):
            await one.add_message(UserMessage(content=f"When does Ada row? {number}", source="user"))
            assert [memory.content for memory in (await memory.update_context(one)).memories.results] == [rows]
    added = f"Relevant memories, best first:\n1. {rows}"
    assert [message.content for message in await context.get_messages()] == [
        "When does Ada row? 0", added, "When does Ada row? 1", "When does Ada row? 2",
    ]
    # A context that has lost it gets it again.
    assert [message.content for message in await short.get_messages()] == ["When does Ada row? 2", added]
    # What comes later is added alone, and not what the conversation itself has.
    await memory.add(text("Ada rows in Ely."))
    await memory.add(text("Where does Ada row?"))
    await context.add_message(UserMessage(content="Where does Ada row?", source="user"))
    assert len((await memory.update_context(context)).memories.results) == 3
    assert (await context.get_messages())[-1].content == "Relevant memories, best first:\n1. Ada rows in Ely."


async def test_clear_deletes_the_session_alone(engine: Engine) -> None:
    memory = MnemonMemory(engine, "acme/ada")
    await memory.clear()
    await memory.add(text("Ada rows."))
    put_chat(engine, "acme/ada", "monday")
    await memory.clear()
    assert await found(memory, "Ada rows") == []
    assert engine.history("acme/ada", "monday")
    await memory.close()
    await memory.add(text("The engine is open."))


async def test_a_component_is_loaded_on_the_file_and_shares_its_engine(tmp_path: Path) -> None:
    path = str(tmp_path / "m.redb")
    engine = Engine(path)
    memory = MnemonMemory(engine, "acme/ada", session="notes", k=3, path=path)
    await memory.add(text("Ada rows."))
    config = memory.dump_component()
    assert config.config == {"path": path, "namespace": "acme/ada", "session": "notes", "k": 3}
    assert Memory.load_component(config).engine is engine  # type: ignore[attr-defined]
    engine.close()
    loaded = Memory.load_component(config)
    assert isinstance(loaded, MnemonMemory) and await found(loaded, "rows") == ["Ada rows."]
    assert MnemonMemory.load_component(config).engine is loaded.engine is not engine
    loaded.engine.close()
    with pytest.raises(InvalidValueError, match="make the memory with path="):
        MnemonMemory(engine, "n").dump_component()


async def test_the_loop_goes_on_beside_a_query_and_a_token_cancels_it() -> None:
    embedder = SlowEmbedder()
    with Engine(embedder=embedder) as engine:
        memory = MnemonMemory(engine, "acme/ada")
        await memory.add(text("Ada rows."))
        assert [one.content for one in (await beside(memory.query("Ada rows."), embedder)).results] == ["Ada rows."]
        token = CancellationToken()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await memory.query("Ada rows.", token)


async def test_what_is_added_at_once_is_all_there(engine: Engine) -> None:
    memory = MnemonMemory(engine, "acme/ada", k=100)
    await asyncio.gather(*(memory.add(text(f"note {number}")) for number in range(50)))
    assert len(engine.history("acme/ada", "memory")) == 50


async def test_metadata_that_is_no_json_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidMessageError, match="metadata.autogen.metadata.x: object is no type of JSON"):
        await MnemonMemory(engine, "n").add(text("x", x=object()))


async def test_another_programs_metadata_is_no_content(engine: Engine) -> None:
    engine.put("n", [{"role": "user", "content": "hi", "session": "memory", "metadata": {"autogen": one}} for one in (5, {}, {"kind": "x"})])
    assert {one.content for one in (await MnemonMemory(engine, "n").query("hi")).results} == {"hi"}
