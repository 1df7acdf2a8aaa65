"""LangChain on an engine. Needs the package `langchain-core`.

`MnemonByteStore` has bytes under keys; `MnemonCache` the answers of models; `MnemonIndex` documents that a retriever finds by meaning and
by words, and `MnemonVectorStore` the same documents as a vector store; `MnemonChatMessageHistory` a session. Each keeps what it has in a
namespace of the engine's file. `MnemonEmbeddings` is the engine's model; `langchain_embedder` lets an engine use a model of LangChain.
"""

from mnemon._adapters import needs

with needs("mnemon.langchain", "langchain-core", "langchain_core"):
    from ._byte_store import MnemonByteStore as MnemonByteStore
    from ._cache import MnemonCache as MnemonCache
    from ._embeddings import MnemonEmbeddings as MnemonEmbeddings
    from ._embeddings import langchain_embedder as langchain_embedder
    from ._history import MnemonChatMessageHistory as MnemonChatMessageHistory
    from ._index import MnemonIndex as MnemonIndex
    from ._vector_store import MnemonVectorStore as MnemonVectorStore
