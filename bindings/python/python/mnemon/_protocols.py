"""What the engine asks of embedders, rerankers and blocks that are written in Python.

The engine calls them from threads of its own. What they raise is the cause of the error of the call that needed them; a block's, which
no call waits for, goes to the log `mnemon` with its traceback. They may call the engine, but not what waits for them: an embedder not
`flush`, `forget`, `reindex`, `rollback` and `set_language`, none of them `settle` and `close`.
"""

from typing import Any, Protocol, runtime_checkable

from ._mnemon import BlockContent, BlockQuery


@runtime_checkable
class Embedder(Protocol):
    """Turns text into vectors.

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


@runtime_checkable
class Reranker(Protocol):
    """Scores the passages that a search found for a query, more precisely than the similarity of vectors."""

    @property
    def name(self) -> str:
        """The name that errors show."""

    def rerank(self, query: str, passages: list[str]) -> Any:
        """Returns one score for each passage, higher is better: an array of 32-bit floats, or a sequence."""


@runtime_checkable
class Block(Protocol):
    """A named part of prompts.

    Optional attributes: `priority` (default 0; blocks with the highest number are shortened first, blocks with 0 never), `scope`
    (`"session"`, or `"namespace"` if all its sessions share one state), `after_forget` (`"drop"`, or `"rebuild"`: the state is made
    again of what is left), `changes` (how often the content does: `"never"`, `"seldom"`, the default, or `"each_prompt"`; a prompt has what
    changes least first).

    Optional methods:

    - `put(state, batch)` returns the new state after a `FlushedBatch`. The state is any JSON value, `None` at first, and is stored with the
      number of the batch in one commit. After an error the batch is tried again later.
    - `truncate(content, tokens)` returns a shorter `BlockContent` for a prompt that is `tokens` over its limit. Without it, a block that
      does not fit is left out.
    """

    @property
    def name(self) -> str:
        """A letter or `_`, then up to 127 letters, digits, `_`, `-` or `.`; unique in a memory."""

    def get(self, state: Any, query: BlockQuery) -> str | BlockContent:
        """Returns the content for a prompt. A block with empty content is not in the prompt."""
