"""LangGraph on an engine: `MnemonSaver` keeps the checkpoints of graphs, `MnemonStore` what they share across threads.

Needs the packages `langgraph-checkpoint` and `langchain-core`, which `langgraph` brings.
"""

from mnemon._adapters import needs

with needs("mnemon.langgraph", "langgraph", "langgraph", "langchain_core"):
    from ._saver import MnemonSaver as MnemonSaver
    from ._store import MnemonStore as MnemonStore
