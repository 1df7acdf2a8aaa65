"""Texts of any length under keys of any length, in documents.

A text that is too long for a document is in parts: documents beside its own, which has their number. Changes of texts are computed from
the documents that were there before, and are committed only if those are still there: so no part is left over or of another text.
"""

import binascii
import functools
import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, TypeAlias

from ._errors import CorruptedError, DocumentChangedError
from ._mnemon import DocumentOperation, Engine, labels_of, namespace_of

# A namespace and a key.
Place: TypeAlias = tuple[str, str]
# The value of a text's document: the text, or the number of its parts; and fields beside it.
Head: TypeAlias = dict[str, Any]

# A document has at most 1 MiB as JSON, in which a character of a text has at most two bytes: texts are base64, or JSON in ASCII.
PART = 500_000
ALL = 2**31 - 1
KEY_BYTES = 512
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
ESCAPED = re.compile(r"\\([0-9a-f]{2})")


def escaped(labels: Iterable[str]) -> list[str]:
    """Labels without control characters, which the engine refuses."""
    return [CONTROL.sub(lambda found: f"\\{ord(found[0]):02x}", label) for label in labels]


@functools.lru_cache(1024)
def space_of(*labels: str) -> str:
    """The namespace of labels of any text."""
    return namespace_of(escaped(labels))


@functools.lru_cache(1024)
def labels_in(namespace: str) -> tuple[str, ...]:
    """The labels that `space_of` was given."""
    return tuple(ESCAPED.sub(lambda found: chr(int(found[1], 16)), label) for label in labels_of(namespace))


def key_of(*parts: str | int | float) -> str:
    """A key that differs if a part differs."""
    text = ", ".join([encode_basestring_ascii(part) if isinstance(part, str) else repr(part) for part in parts])
    return text if len(text) <= KEY_BYTES - 8 else hashlib.sha256(text.encode()).hexdigest()


def packed(data: bytes) -> str:
    """Bytes as text."""
    return binascii.b2a_base64(data, newline=False).decode()


def unpacked(text: str) -> bytes:
    return binascii.a2b_base64(text)


def heads(engine: Engine, places: Iterable[Place]) -> list[Head | None]:
    """The values of the documents at places; `None` where there is none."""
    found = engine.document_batch([DocumentOperation.get(*place) for place in places])
    return [document and document.value for document in found]


def read(engine: Engine, places: Sequence[Place]) -> tuple[list[Head | None], list[str | None]]:
    """The documents at places, to be expected by a change, and their texts; `None` where there is none."""
    found, texts = heads(engine, places), []
    for at, place in enumerate(places):
        text = None
        while (head := found[at]) is not None and (text := _text(engine, place, head)) is None:
            [found[at]] = heads(engine, [place])
            if found[at] == head:
                raise CorruptedError(f"parts of the document {place[1]!r} of the namespace {place[0]!r} are missing")
        texts.append(text)
    return found, texts


def expects(places: Iterable[Place], found: Iterable[Head | None]) -> Iterator[DocumentOperation]:
    """The operations that let a commit fail unless these documents are at these places."""
    return (DocumentOperation.expect(*place, head) for place, head in zip(places, found, strict=True))


def puts(place: Place, text: str, old: Head | None, **fields: Any) -> Iterator[DocumentOperation]:
    """The operations that store a text, with fields beside it, where `old` was."""
    if len(text) <= PART:
        head = {"text": text, **fields}
    else:
        pieces = [text[first : first + PART] for first in range(0, len(text), PART)]
        head = {"parts": len(pieces), "of": uuid.uuid4().hex, **fields}
        for part, piece in zip(_parts(place, head), pieces, strict=True):
            yield DocumentOperation.put(*part, {"of": head["of"], "text": piece}, index=[])
    yield DocumentOperation.put(*place, head, index=[])
    yield from drops(place, head, old)


def drops(place: Place, new: Head, old: Head | None) -> Iterator[DocumentOperation]:
    """The operations that delete the parts of a document which the one that replaces it does not have."""
    return (DocumentOperation.delete(*part) for part in _parts(place, old, new.get("parts", 0)))


def deletes(place: Place, old: Head | None) -> Iterator[DocumentOperation]:
    """The operations that delete a text, if there is one: its document is `old`."""
    if old is not None:
        yield DocumentOperation.delete(*place)
        yield from drops(place, {}, old)


def commit(engine: Engine, change: Callable[[], Iterable[DocumentOperation]]) -> list[Any]:
    """Commits a change that is computed from what was read and expects it, and computes it again if that has changed.

    Returns the outcomes of its operations: none if there was nothing to change.
    """
    while operations := list(change()):
        try:
            return engine.document_batch(operations)
        except DocumentChangedError:
            continue
    return []


def update(
    engine: Engine, places: Sequence[Place], change: Callable[[list[Head | None], list[str | None]], Iterable[DocumentOperation]]
) -> list[Any]:
    """Commits a change that is computed from the documents at places and their texts, as `commit` does, and expects them."""

    def expecting() -> list[DocumentOperation]:
        found, texts = read(engine, places)
        operations = list(change(found, texts))
        return operations and [*expects(places, found), *operations]

    return commit(engine, expecting)


def replace(engine: Engine, new: Mapping[Place, tuple[str, dict[str, Any]] | None]) -> None:
    """Stores texts, with fields beside them, or deletes what is there, in one commit."""

    def change() -> Iterator[DocumentOperation]:
        found = heads(engine, new)
        yield from expects(new, found)
        for (place, content), old in zip(new.items(), found, strict=True):
            yield from puts(place, content[0], old, **content[1]) if content else deletes(place, old)

    commit(engine, change)


def _parts(place: Place, head: Head | None, first: int = 0) -> list[Place]:
    """The places of a document's parts, from one on."""
    return [(place[0], f"{place[1]}#{part}") for part in range(first, head.get("parts", 0) if head else 0)]


def _text(engine: Engine, place: Place, head: Head) -> str | None:
    """The text of a document that was read; `None` if it was replaced meanwhile."""
    if "parts" not in head:
        text: str = head["text"]
        return text
    parts = [part for part in heads(engine, _parts(place, head)) if part is not None and part["of"] == head["of"]]
    return "".join(part["text"] for part in parts) if len(parts) == head["parts"] else None
