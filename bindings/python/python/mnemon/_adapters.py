"""What the adapters of all frameworks share: the check for the framework, and messages that none of them wrote.

A message of another program is read as the crate writes it for providers: each result of a tool is a turn of its own, calls of tools are
the assistant's, and what else a tool's message has is the user's. Media stay media in messages of users, and are described elsewhere.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ._mnemon import Message

Part = dict[str, Any]


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


def text_of(parts: Sequence[Part]) -> str:
    """The text of parts, as `Message.text` has it."""
    texts = {"text": "text", "tool_result": "content"}
    return "\n".join(part[texts[part["type"]]] for part in parts if part["type"] in texts)


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
