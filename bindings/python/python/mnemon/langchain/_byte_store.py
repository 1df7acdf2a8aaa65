"""Bytes under keys."""

from collections.abc import AsyncIterator, Iterator, Sequence

from langchain_core.stores import ByteStore

from mnemon import AsyncEngine, Engine
from mnemon._async import engine_of
from mnemon._values import ALL, Place, key_of, packed, read, replace, unpacked
from mnemon._wait import awaited, wait


class MnemonByteStore(ByteStore):
    """Bytes of any length under keys of any text, in a namespace. A call is one commit."""

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        texts = read(self.engine, [self._place(key) for key in keys])[1]
        return [None if text is None else unpacked(text) for text in texts]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        # Of several values of a key the last counts.
        replace(self.engine, {self._place(key): (packed(data), {"name": key}) for key, data in key_value_pairs})

    def mdelete(self, keys: Sequence[str]) -> None:
        replace(self.engine, {self._place(key): None for key in keys})

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys that begin with `prefix`. Cost: a pass over all values."""
        for document in self.engine.documents(self.namespace).search(limit=ALL):
            name = document.value.get("name")
            if name is not None and name.startswith(prefix or ""):
                yield name

    def _place(self, key: str) -> Place:
        return self.namespace, key_of(key)

    amget = awaited(mget)
    amset = awaited(mset)
    amdelete = awaited(mdelete)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        for key in await wait(lambda: list(self.yield_keys(prefix=prefix))):
            yield key
