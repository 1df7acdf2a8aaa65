/** LangChain.js on a memory: a vector store, a retriever of messages, and a history of a chat. Needs the package `@langchain/core`. */

export { MnemonChatMessageHistory } from "../langchain/history.js";
export { MnemonRetriever } from "../langchain/retriever.js";
export { MnemonVectorStore } from "../langchain/vectors.js";
