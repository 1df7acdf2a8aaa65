"""JSON values of any size under keys of any length, in the documents of a namespace."""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._mnemon import Document, DocumentOperation, Engine, labels_of, namespace_of

# A document has at most 1 MiB as JSON. A part is text, with two bytes for a character at most: it is ASCII, and quotes are escaped.
PART = 500_000
ALL = 2**31 - 1
KEY_BYTES = 512
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
ESCAPED = re.compile(r"\\([0-9a-f]{2})")


def escaped(labels: Iterable[str]) -> list[str]:
    """Labels without control characters, which the engine refuses."""
    return [CONTROL.sub(lambda found: f"\\{ord(found[0]):02x}", label) for label in labels]


def space_of(labels: Iterable[str]) -> str:
    """The namespace of labels of any text."""
    return namespace_of(escaped(labels))


def labels_in(namespace: str) -> list[str]:
    """The labels that `space_of` was given."""
    return [ESCAPED.sub(lambda found: chr(int(found[1], 16)), label) for label in labels_of(namespace)]


def key_of(*parts: str | int | float) -> str:
    """A key that differs if a part differs."""
    text = json.dumps(parts)
    return text if len(text) <= KEY_BYTES - 8 else hashlib.sha256(text.encode()).hexdigest()


def read(engine: Engine, namespace: str, keys: Sequence[str]) -> tuple[list[Document | None], list[Any]]:
    """The documents at keys, to be expected by a change, and the values; `None` where there is none."""
    heads: list[Document | None] = engine.document_batch([DocumentOperation.get(namespace, key) for key in keys])
    values: list[Any] = []
    for at, key in enumerate(keys):
        while (head := heads[at]) is not None and "parts" in head.value:
            parts = [part_key(key, part) for part in range(head.value["parts"])]
            found = engine.document_batch([DocumentOperation.get(namespace, part) for part in parts])
            texts = [part.value["text"] for part in found if part is not None and part.value["of"] == head.value["id"]]
            if len(texts) == len(parts):
                values.append(json.loads("".join(texts)))
                break
            # The value was replaced meanwhile.
            heads[at] = engine.document_batch([DocumentOperation.get(namespace, key)])[0]
        else:
            values.append(head and head.value["value"])
    return heads, values


def puts(namespace: str, key: str, value: Any, **fields: str) -> Iterator[DocumentOperation]:
    """The operations that store a value, with fields beside it."""
    text = json.dumps(value)
    if len(text) <= PART:
        yield DocumentOperation.put(namespace, key, {"value": value, **fields}, index=[])
        return
    texts = [text[first : first + PART] for first in range(0, len(text), PART)]
    name = uuid.uuid4().hex
    yield DocumentOperation.put(namespace, key, {"parts": len(texts), "id": name, **fields}, index=[])
    for part, piece in enumerate(texts):
        yield DocumentOperation.put(namespace, part_key(key, part), {"of": name, "text": piece}, index=[])


def packed(data: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(data).decode()


def unpacked(text: str) -> bytes:
    return base64.b64decode(text)


def deletes(engine: Engine, namespace: str, keys: Sequence[str]) -> Iterator[DocumentOperation]:
    """The operations that delete values."""
    heads = engine.document_batch([DocumentOperation.get(namespace, key) for key in keys])
    for key, head in zip(keys, heads, strict=True):
        yield DocumentOperation.delete(namespace, key)
        for part in range(head.value.get("parts", 0) if head else 0):
            yield DocumentOperation.delete(namespace, part_key(key, part))


def part_key(key: str, part: int) -> str:
    return f"{key}#{part}"
