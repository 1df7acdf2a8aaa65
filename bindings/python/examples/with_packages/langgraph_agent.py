"""A graph whose checkpoints and memory are in one file: another thread knows what was said, also after a restart. Needs `langgraph`."""

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from mnemon import Engine
from mnemon.langgraph import MnemonSaver, MnemonStore

USER = ("users", "ada")


def chat(state: MessagesState, runtime: Runtime[None]) -> dict[str, list[AIMessage]]:
    """Stands for the chat model: it says what it remembers, and remembers what is said."""
    assert runtime.store is not None
    said = state["messages"][-1]
    found = runtime.store.search(USER, query=str(said.content), limit=1)
    runtime.store.put(USER, str(said.id), {"text": said.content})
    answer = f"You told me: {found[0].value['text']}" if found else "Noted."
    return {"messages": [AIMessage(f"{answer} This is message {len(state['messages'])} here.")]}


builder = StateGraph(MessagesState)
builder.add_node("chat", chat)
builder.add_edge(START, "chat")
for thread, text in [
    ("monday", "I moved my rowing lesson to Thursday."),
    ("tuesday", "When is my rowing lesson?"),
    ("monday", "Do you know when I go rowing?"),
]:
    with Engine("memory.redb") as engine:
        graph = builder.compile(checkpointer=MnemonSaver(engine), store=MnemonStore(engine))
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        result = graph.invoke({"messages": [HumanMessage(text)]}, config)
        print(f"{thread}: {text} -> {result['messages'][-1].content}")
