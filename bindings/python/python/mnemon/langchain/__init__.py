"""LangChain on an engine. Needs the package `langchain-core`.

`MnemonByteStore` has bytes under keys; `MnemonCache` the answers of models; `MnemonIndex` documents that a retriever finds by meaning and by
words; `MnemonChatMessageHistory` a session. Each keeps what it has in a namespace of the engine's file.
"""

from ._byte_store import MnemonByteStore as MnemonByteStore
from ._cache import MnemonCache as MnemonCache
from ._history import MnemonChatMessageHistory as MnemonChatMessageHistory
from ._index import MnemonIndex as MnemonIndex
