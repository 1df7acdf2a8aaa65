"""LlamaIndex on an engine. Needs the package `llama-index-core`.

`MnemonChatStore` keeps the messages of LlamaIndex's `Memory`; `MnemonBlock` is a block of it, what a recall finds. `MnemonVectorStore` has
nodes that an index finds by meaning and by words; `MnemonEmbedding` is the engine's model.
"""

from mnemon._adapters import needs

with needs("mnemon.llama_index", "llama-index-core", "llama_index"):
    from ._block import MnemonBlock as MnemonBlock
    from ._chat_store import MnemonChatStore as MnemonChatStore
    from ._embedding import MnemonEmbedding as MnemonEmbedding
    from ._vector_store import MnemonVectorStore as MnemonVectorStore
