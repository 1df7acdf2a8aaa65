"""LangGraph on an engine: `MnemonSaver` keeps the checkpoints of graphs, `MnemonStore` what they share across threads.

Needs the packages `langgraph-checkpoint` and `langchain-core`, which `langgraph` brings.
"""

from ._saver import MnemonSaver as MnemonSaver
from ._store import MnemonStore as MnemonStore
