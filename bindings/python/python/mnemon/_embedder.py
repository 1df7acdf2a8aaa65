"""What the engine asks of an embedder that is written in Python."""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Embedder(Protocol):
    """Turns text into vectors.

    The engine calls it from threads of its own. What it raises is the cause of the call's `EmbeddingError`.
    Two attributes are optional: `hash`, hexadecimal text that changes when the vectors do (default: made from the
    name), and `embed_query(text)`, which returns one vector (default: that of `embed_documents([text])`).
    """

    @property
    def name(self) -> str:
        """The model's name. A database accepts the model that it was made with."""

    @property
    def dimension(self) -> int:
        """The number of components of a vector, 1 to 65,535."""

    def embed_documents(self, texts: list[str]) -> Any:
        """Returns a vector of length 1 for each text: an array of 32-bit floats, or a sequence of sequences."""
