"""What the adapters of all frameworks share: the check for the framework, contents within limits, and messages that none of them wrote.

A message of another program is read as the crate writes it for providers: each result of a tool is a turn of its own, calls of tools are
the assistant's, and what else a tool's message has is the user's. Media stay media in messages of users, and are described elsewhere.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakSet

from ._errors import ClosedError, InvalidValueError, MnemonError, ReadOnlyError
from ._mnemon import Engine, Hit, Message, Query

Part = dict[str, Any]
_T = TypeVar("_T")

# Bytes of content that the engine takes: of a single text as UTF-8, of other parts as JSON.
CONTENT_BYTES = 1 << 20
# Adapters share these locks, so that none has to be made for each session.
LOCKS = [Lock() for _ in range(64)]


def turn_of(*names: object) -> Lock:
    """The lock under which changes of what has these names take turns."""
    return LOCKS[hash(names) % len(LOCKS)]


def embed_pending(engine: Engine) -> None:
    """Embeds what was put just before, so that a search finds it by meaning. An engine for reading only finds it by words."""
    if engine.pending():
        with suppress(ReadOnlyError):
            engine.flush()


def search(engine: Engine, namespace: str, text: str, **options: Any) -> list[Hit]:
    """The hits of a text, of a long one those of its beginning, also of what was put just before; none for a blank text."""
    if not text.strip():
        return []
    embed_pending(engine)
    return list(engine.recall(namespace, Query(text_of(fitting([{"type": "text", "text": text}])), **options)))


# Components that know the path of their engine's file, as configurations of them name it.
COMPONENTS: "WeakSet[Any]" = WeakSet()


def engine_at(path: str | None) -> Engine:
    """The engine of a component that lives and has this path, as a file is opened once; otherwise a new one, which the last one closes."""
    if path is None:
        raise InvalidValueError("the configuration names no path of an engine's file; make the component with path=...")
    for component in list(COMPONENTS):
        if os.path.realpath(component.path) == os.path.realpath(path):
            try:
                component.engine.pending()
            except ClosedError:
                continue
            return cast(Engine, component.engine)
    return Engine(path)


@contextmanager
def needs(adapter: str, package: str, *modules: str) -> Iterator[None]:
    """Imports of a framework's modules; an error names the package that has them, and the extra of this package."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in modules:
            raise
        extra = adapter.removeprefix("mnemon.").replace("_", "-")
        raise ImportError(
            f"{adapter} needs the package {package}, which is missing here, too old, or hidden by a module of the same name ({error}); "
            f"pip install 'mnemon-engine[{extra}]', or the package alone: pip install -U {package}",
            name=error.name,
        ) from error


class Turn(NamedTuple):
    """Parts of a message that one role says. The one of a tool is a single result."""

    role: str
    parts: list[Part]


def turns_of(message: Message) -> list[Turn]:
    """A message as turns, at least one. Blank texts are left out."""
    author = "user" if message.role == "tool" else message.role
    turns: list[Turn] = []
    for part in message.content:
        if part["type"] == "text" and not part["text"].strip():
            continue
        role = {"tool_result": "tool", "tool_call": "assistant"}.get(part["type"], author)
        if role == "tool" or not turns or turns[-1].role != role:
            turns.append(Turn(role, []))
        turns[-1].parts.append(part)
    return turns or [Turn(author, [])]


def names_of(messages: Iterable[Message]) -> dict[str, str]:
    """The names of the tools that messages call, by the ids of the calls: what a result has no place for."""
    return {part["id"]: part["name"] for message in messages for part in message.content if part["type"] == "tool_call"}


def text_of(parts: Sequence[Part]) -> str:
    """The text of parts, as `Message.text` has it."""
    texts = {"text": "text", "tool_result": "content"}
    return "\n".join(part[texts[part["type"]]] for part in parts if part["type"] in texts)


def fitting(parts: Sequence[Part]) -> list[Part]:
    """Parts as content that the engine takes, without blank texts. If they are too long, it has the beginning of each text, result and
    arguments, and of very many parts the first ones. Recalls find the message by them, and an adapter keeps the whole in the metadata. By
    another rule than this, messages that were stored before, or by the npm package, would look as if they were changed."""
    content, size = _said(parts), CONTENT_BYTES
    while size and _size(content) > CONTENT_BYTES:
        content, size = _said([_begun(part, size) for part in parts[:size]]), size // 2
    return content


def is_unchanged(message: Message, parts: Sequence[Part]) -> bool:
    """False if another program changed the text of a message that was stored with parts. Once, what says nothing had a text like `(human)`."""
    if text_of(parts) == message.text:
        return True
    content = fitting(parts)
    return text_of(content) == message.text or (not content and re.fullmatch(r"\(\w[\w-]*\)", message.text) is not None)


def kept(message: Message, key: str, load: Callable[[Any], _T], parts: Callable[[_T], Sequence[Part]]) -> _T | None:
    """What an adapter keeps in a message's metadata; `None` if another program stored the message, or changed its text since."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        item = load(message.metadata[key])
        if is_unchanged(message, parts(item)):
            return item
    return None


def _said(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part["type"] != "text" or part["text"].strip()]


def _size(parts: Sequence[Part]) -> int:
    is_text = len(parts) == 1 and parts[0]["type"] == "text"
    return len((parts[0]["text"] if is_text else _json(parts)).encode(errors="surrogatepass"))


def _begun(part: Part, size: int) -> Part:
    """A part with at most so many bytes of text, whole characters."""
    field = {"text": "text", "tool_result": "content", "tool_call": "arguments"}.get(part["type"])
    if field is None:
        return part
    text = part[field] if isinstance(part[field], str) else _json(part[field])
    start = text.encode(errors="surrogatepass")[:size].decode(errors="ignore")
    return part if start == text else part | {field: start}


def _json(value: Any) -> str:
    # What is no JSON is refused by the engine, which names it.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def described(part: Part) -> str:
    """A part as text: a medium by its kind, and by its address unless that is the data itself."""
    if part["type"] in ("text", "tool_result"):
        return text_of([part])
    return f"[{part['type']}]" if part["uri"].startswith("data:") else f"[{part['type']}: {part['uri']}]"


def data_of(part: Part) -> tuple[str, str] | None:
    """The media type and the base64 of a medium that is data itself."""
    head, mark, data = part["uri"].partition(";base64,")
    return (head.removeprefix("data:"), data) if mark and head.startswith("data:") else None


def sound_of(media_type: str) -> str:
    """The format of an audio recording, as providers name it."""
    name = media_type.removeprefix("audio/")
    return "mp3" if name == "mpeg" else name


def arguments_of(call: Mapping[str, Any]) -> Any:
    """The arguments of a call: an object, or else a text."""
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments)
        except ValueError:
            return arguments
        return read if isinstance(read, dict) else arguments
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else json.dumps(arguments, ensure_ascii=False)


def call_of(id: str | None, name: str | None, arguments: Any) -> Part:
    """A call of a tool. Its arguments are an object, which prompts are made of; the text of what the engine would have otherwise, such as
    integers of more than 64 bits."""
    part = {"type": "tool_call", "id": id or "", "name": name or "", "arguments": arguments_of({"arguments": arguments})}
    try:
        if Message([part]).content == [part]:
            return part
    except MnemonError:
        pass
    return part | {"arguments": arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)}
