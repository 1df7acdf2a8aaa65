"""LlamaIndex's chat messages among the engine's messages."""

import json
import uuid
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    VideoBlock,
)

from mnemon import Engine, Message
from mnemon._adapters import Part, arguments_of, data_of, described, sound_of
from mnemon._values import Place, key_of, read, replace

# In a message's metadata: whether it is archived; the chat message as JSON, if text and role are not all of it; the key of the document
# that has this JSON, if it is large.
STATUS, DUMP, DOCUMENT = "llama_index_status", "llama_index", "llama_index_document"
ARCHIVED = "archived"

# A text has at most 1 MiB, of four bytes a character; metadata at most 16 MiB. More is a document, which has its own limit.
DUMP_LENGTH = 200_000
TEXT_LENGTH = 100_000

# The blocks of media, and their fields for data and for its type.
MEDIA: dict[str, tuple[Any, str, str]] = {
    "image": (ImageBlock, "image", "image_mimetype"),
    "audio": (AudioBlock, "audio", "format"),
    "video": (VideoBlock, "video", "video_mimetype"),
    "file": (DocumentBlock, "data", "document_mimetype"),
}

ROLES = {"developer": "system", "function": "tool", "chatbot": "assistant", "model": "assistant"}


def put(
    engine: Engine,
    namespace: str,
    messages: Sequence[ChatMessage],
    session: str,
    *,
    archived: bool,
    replaced: Sequence[Message] = (),
) -> None:
    """Puts chat messages in one commit, in the place of others or at the end. Large ones go into documents first, in a commit before."""
    documents: dict[Place, tuple[str, dict[str, Any]] | None] = {}
    rows: list[Message] = []
    for message, old in zip_longest(messages, replaced):
        dump = message.model_dump(mode="json")
        text = message.content or ""
        role = ROLES.get(dump["role"], dump["role"])
        metadata = {STATUS: ARCHIVED} if archived else {}
        plain = {"role": role, "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": text}]}
        if dump != plain or not text.strip() or len(text) > TEXT_LENGTH:
            metadata[DUMP] = json.dumps(dump)
            if len(metadata[DUMP]) > DUMP_LENGTH:
                metadata[DOCUMENT] = key_of(DUMP, uuid.uuid4().hex)
                documents[namespace, metadata[DOCUMENT]] = (metadata.pop(DUMP), {})
        content: Any = _recalled(message) or []
        rows.append(Message(content, role, id=old and old.id, session=session, metadata=metadata))
    if documents:
        replace(engine, documents)
    engine.put(namespace, rows)
    delete_documents(engine, namespace, replaced)


def get(engine: Engine, namespace: str, rows: Sequence[Message]) -> list[ChatMessage]:
    """The chat messages that were put, each as it was; and what other programs put or changed, as chat messages."""
    metadata = [row.metadata for row in rows]
    places = _places(namespace, metadata)
    large = dict(zip(places, read(engine, places)[1], strict=True)) if places else {}
    dumps = [large.get((namespace, fields.get(DOCUMENT, "")), fields.get(DUMP)) for fields in metadata]
    return [_stored(row, dump) or _converted(row) for row, dump in zip(rows, dumps, strict=True)]


def _stored(row: Message, dump: Any) -> ChatMessage | None:
    """The chat message of a dump; `None` if there is none that LlamaIndex reads, or if another program changed the text since."""
    try:
        message = ChatMessage.model_validate(json.loads(dump))
    except (TypeError, ValueError):
        return None
    return message if _recalled(message) == row.text else None


def _converted(row: Message) -> ChatMessage:
    """A message of another program as one chat message, in which a tool's result is its text."""
    kinds = [part["type"] for part in row.content]
    role = "tool" if "tool_result" in kinds else "assistant" if "tool_call" in kinds else row.role
    options = {"name": row.name} if row.name else {}
    for part in row.content:
        if part["type"] == "tool_result":
            options.setdefault("tool_call_id", part["id"])
    return ChatMessage(role=role, blocks=[_block(part, role) for part in row.content], additional_kwargs=options)


def _block(part: Part, role: str) -> ContentBlock:
    if part["type"] == "tool_call":
        return ToolCallBlock(tool_call_id=part["id"] or None, tool_name=part["name"], tool_kwargs=arguments_of(part))
    if role == "user" and part["type"] in MEDIA:
        kind, field, type_field = MEDIA[part["type"]]
        media_type, data = data_of(part) or (part.get("media_type"), None)
        if media_type and type_field == "format":
            media_type = sound_of(media_type)
        fields: dict[str, Any] = {type_field: media_type, "url": part["uri"]}
        if data is not None:
            fields = {type_field: media_type, field: data.encode()}
        try:
            block: ContentBlock = kind(**fields)
            return block
        except ValueError:
            # No address that LlamaIndex knows.
            pass
    return TextBlock(text=described(part))


def _recalled(message: ChatMessage) -> str:
    """The text that recalls find a chat message by."""
    text = (message.content or "")[:TEXT_LENGTH]
    return text if text.strip() else ""


def delete_documents(engine: Engine, namespace: str, rows: Sequence[Message]) -> None:
    """Deletes what large messages had in documents."""
    places = _places(namespace, [row.metadata for row in rows])
    if places:
        replace(engine, dict.fromkeys(places))


def _places(namespace: str, metadata: Sequence[dict[str, Any]]) -> list[Place]:
    return [(namespace, fields[DOCUMENT]) for fields in metadata if DOCUMENT in fields]
