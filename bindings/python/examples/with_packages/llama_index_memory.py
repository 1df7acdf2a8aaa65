"""LlamaIndex's `Memory` in the engine: its messages, and what a recall finds for the prompt. `MockLLM` answers with the prompt."""

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory

import mnemon
from mnemon.llama_index import MnemonBlock, MnemonChatStore

with mnemon.Engine("memory.redb") as engine:
    store = MnemonChatStore(engine=engine, namespace="acme/user-42")
    # The store has the messages that leave the chat; the block need not put them again.
    block = MnemonBlock(engine=engine, namespace="acme/user-42", accept_short_term_memory=False)

    def chat(session: str) -> SimpleChatEngine:
        memory = Memory.from_defaults(session, memory_blocks=[block], chat_store=store)
        return SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)

    chat("monday").chat("I moved my rowing lesson to Thursday morning.")
    engine.flush()  # found by meaning from here on; otherwise a second later
    print(chat("tuesday").chat("When do I go rowing?"))
    for message in engine.history("acme/user-42", "tuesday"):
        print(f"stored: {message.role}: {message.text[:40]!r}")
