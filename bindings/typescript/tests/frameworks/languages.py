"""What Python's adapters store in a file, and what they read there: `languages.py FILE auto|given write|read`. See languages.test.ts."""

import asyncio
import json
import sys

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, message_to_dict

from mnemon import Engine, GivenVectors
from mnemon.anthropic import MnemonMemoryTool
from mnemon.langchain import MnemonChatMessageHistory, MnemonVectorStore
from mnemon.langgraph import MnemonStore
from mnemon.openai_agents import MnemonSession

LONG = "id/\u00e9" * 200
# Too long for a content.
LONG_TEXT = "\U0001f6a3" * 300_000
SPACES = [("users", "a/d%2Fa"), ("line\nfeed\\",)]


class Lengths(Embeddings):
    """A text's length in two directions."""

    def embed_query(self, text: str) -> list[float]:
        return [len(text) % 7 + 1.0, len(text) % 3 + 1.0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class Stores:
    def __init__(self, engine: Engine, given: bool) -> None:
        self.items = MnemonStore(engine)
        self.documents = MnemonVectorStore(engine, "documents", Lengths() if given else None)
        self.history = MnemonChatMessageHistory(engine, "users/ada", "chat")
        self.session = MnemonSession(engine, "users/ada", "agents")
        self.files = MnemonMemoryTool(engine, "users/ada")


def write(stores: Stores) -> None:
    for space in SPACES:
        stores.items.put(space, "k/e.y\u00e9", {"by": "python", "text": "Ada goes rowing.", "n": 1.5})
    stores.documents.add_documents([
        Document("Ada goes rowing.", id=LONG, metadata={"by": "python", "tags": ["sport", None]}),
        Document("Bo bakes bread.", id="bo\u00e9", metadata={"by": "python"}),
        Document("Di reads.", id="di", metadata={"by": "python"}),
    ])
    stores.history.add_messages([
        HumanMessage("What time is it?", name="ada", id="m1"),
        AIMessage("", tool_calls=[{"id": "c1", "name": "clock", "args": {"zone": "UTC"}, "type": "tool_call"}]),
        ToolMessage("12:00", tool_call_id="c1", name="clock"),
        HumanMessage(LONG_TEXT),
    ])
    asyncio.run(stores.session.add_items([
        {"role": "user", "content": "What time is it?"},
        {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": '{"zone":"UTC"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "12:00"},
    ]))
    stores.files.call({"command": "create", "path": "/memories/sport.md", "file_text": "Ada rows.\n"})


def read(stores: Stores) -> dict[str, object]:
    vector = stores.documents.embeddings.embed_query("Cy plays the violin.")
    return {
        "items": [[item.namespace, item.key, item.value] for item in stores.items.search(())],
        "best": stores.documents.similarity_search_by_vector(vector, 1)[0].id,
        "documents": sorted([found.id, found.page_content, found.metadata] for found in stores.documents.similarity_search("Ada", 9)),
        "history": [message_to_dict(message) for message in stores.history.messages],
        "session": asyncio.run(stores.session.get_items()),
        "file": stores.files.call({"command": "view", "path": "/memories/sport.md"}),
    }


if __name__ == "__main__":
    _, file, model, command = sys.argv
    given = model == "given"
    with Engine(file, embedder=GivenVectors("lengths", 2)) if given else Engine(file) as engine:
        stores = Stores(engine, given)
        if command == "write":
            write(stores)
        else:
            print(json.dumps(read(stores)))
