"""A block of LlamaIndex's `Memory`."""

from typing import Annotated, Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import BeforeValidator, ConfigDict, Field
from llama_index.core.memory import BaseMemoryBlock

from mnemon import Engine, Hit, Query
from mnemon._async import engine_of
from mnemon._wait import wait

from ._messages import ARCHIVED, STATUS, TEXT_LENGTH, put


class MnemonBlock(BaseMemoryBlock[str]):
    """The messages of a namespace that answer the last messages of the chat best.

    The query is the text of the last `window` messages. `top_k` is the greatest number of hits, `threshold` the least cosine similarity;
    `own_session` recalls from the chat's own session alone. Left out are repeated texts, those that the chat has, and messages of its
    session that are not archived. A long message is quoted by the passage that matched.

    Messages that leave the chat are put into its session, in one commit. Where a `MnemonChatStore` of the same namespace has them already,
    set `accept_short_term_memory=False`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = "memories"
    engine: Annotated[Engine, BeforeValidator(engine_of)] = Field(exclude=True)
    namespace: str
    top_k: int = Field(default=2, ge=1)
    threshold: float | None = None
    window: int = Field(default=5, ge=1)
    own_session: bool = False

    async def _aget(self, messages: list[ChatMessage] | None = None, session_id: str | None = None, **_: Any) -> str:
        texts = [message.content or "" for message in messages or []]
        query = " ".join(texts[-self.window :])[-TEXT_LENGTH:]
        if not query.strip():
            return ""
        left_out = {*texts, ""}
        quotes = []
        for hit in await wait(self._recall, query, session_id):
            if hit.message.text not in left_out and (self.threshold is None or hit.similarity >= self.threshold):
                left_out.add(hit.message.text)
                quotes.append(_quote(hit))
        return "\n".join(quotes[: self.top_k])

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await wait(self._put, messages)

    def _recall(self, query: str, session: str | None) -> list[Hit]:
        where: dict[str, Any] = {}
        if session is not None:
            where = {"$or": [{STATUS: ARCHIVED}, {"$session": {"$ne": session}}]}
        own = session if self.own_session else None
        # More than are returned, as some are left out.
        return list(self.engine.recall(self.namespace, Query(query, k=2 * self.top_k + 8, session=own, where=where)))

    def _put(self, messages: list[ChatMessage]) -> None:
        session, own = "default", []
        for message in messages:
            # `Memory` writes its session on messages.
            options = dict(message.additional_kwargs)
            session = options.pop("session_id", session)
            own.append(message.model_copy(update={"additional_kwargs": options}))
        put(self.engine, self.namespace, own, session, archived=True)


def _quote(hit: Hit) -> str:
    message = hit.message
    # A time before year 1 is text.
    time = message.to_dict()["created_at"]
    date = f"{str(time).replace('T', ' ').partition(' ')[0]} " if time else ""
    return f"[{date}{message.name or message.role}] {hit.passage}"
