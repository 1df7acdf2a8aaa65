"""LlamaIndex's chat messages among the engine's messages."""

import json
import uuid
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from mnemon import Engine, Message
from mnemon._values import Place, key_of, read, replace

# In a message's metadata: whether it is archived; the chat message as JSON, if text and role are not all of it; the key of the document
# that has this JSON, if it is large.
STATUS, DUMP, DOCUMENT = "llama_index_status", "llama_index", "llama_index_document"
ARCHIVED = "archived"

# A message has at most 1 MiB. A character of the JSON takes two bytes, as quotes are escaped; one of the text takes four.
DUMP_LENGTH = 200_000
TEXT_LENGTH = 100_000

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
        content: Any = text[:TEXT_LENGTH]
        if not content.strip():
            # The engine refuses empty text. No recall finds this.
            content = [{"type": "file", "uri": "llama_index:message"}]
        rows.append(Message(content, role, id=old and old.id, session=session, metadata=metadata))
    if documents:
        replace(engine, documents)
    engine.put(namespace, rows)
    delete_documents(engine, namespace, replaced)


def get(engine: Engine, namespace: str, rows: Sequence[Message]) -> list[ChatMessage]:
    """The chat messages that were put, each as it was. Another message is one of a text."""
    metadata = [row.metadata for row in rows]
    places = _places(namespace, metadata)
    large = dict(zip(places, read(engine, places)[1], strict=True)) if places else {}
    dumps = [large.get((namespace, fields.get(DOCUMENT, "")), fields.get(DUMP)) for fields in metadata]
    return [
        ChatMessage.model_validate(json.loads(dump)) if dump else ChatMessage(role=row.role, content=row.text)
        for row, dump in zip(rows, dumps, strict=True)
    ]


def delete_documents(engine: Engine, namespace: str, rows: Sequence[Message]) -> None:
    """Deletes what large messages had in documents."""
    places = _places(namespace, [row.metadata for row in rows])
    if places:
        replace(engine, dict.fromkeys(places))


def _places(namespace: str, metadata: Sequence[dict[str, Any]]) -> list[Place]:
    return [(namespace, fields[DOCUMENT]) for fields in metadata if DOCUMENT in fields]
