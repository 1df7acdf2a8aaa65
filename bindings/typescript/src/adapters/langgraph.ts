/**
 * LangGraph.js on a memory: `MnemonSaver` keeps the checkpoints of graphs, `MnemonStore` what they share across threads. Needs the
 * package `@langchain/langgraph-checkpoint`, which `@langchain/langgraph` brings.
 */

export { MnemonSaver } from "../langgraph/saver.js";
export { MnemonStore } from "../langgraph/store.js";
