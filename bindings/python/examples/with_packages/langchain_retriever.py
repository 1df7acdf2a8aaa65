"""LangChain's chain of a retriever, a prompt and a model, on documents in mnemon. Needs `langchain-core`."""

from langchain_core.documents import Document
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from mnemon import Engine
from mnemon.langchain import MnemonVectorStore


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def answer(prompt: PromptValue) -> str:
    """Stands for the chat model: it says what it was given."""
    return f"I was given this:\n{prompt.to_string()}"


with Engine("memory.redb") as engine:
    store = MnemonVectorStore(engine, "club/rules")
    store.add_documents([
        Document("Rowing lessons are on Thursday at nine.", id="lessons", metadata={"topic": "rowing"}),
        Document("The boathouse closes at dusk.", id="boathouse", metadata={"topic": "rowing"}),
        Document("The canteen is closed on Thursday.", id="canteen", metadata={"topic": "food"}),
    ])
    retriever = store.as_retriever(search_kwargs={"k": 1, "filter": {"topic": "rowing"}})
    template = ChatPromptTemplate.from_messages([("system", "Answer from: {documents}"), ("user", "{question}")])
    chain = {"documents": retriever | joined, "question": RunnablePassthrough()} | template | RunnableLambda(answer)
    print(chain.invoke("When do I learn to row?"))
