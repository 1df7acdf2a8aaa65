/** A graph whose state outlives the process, and a store that its threads share. Needs `mnemon serve`. */

import { AIMessage } from "@langchain/core/messages";
import { type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Mnemon } from "mnemon-engine";
import { MnemonSaver, MnemonStore } from "mnemon-engine/langgraph";

const mnemon = new Mnemon({ url: process.env.MNEMON_URL ?? "http://127.0.0.1:7411" });

/** Stands for a chat model. */
async function answer({ messages }: typeof MessagesAnnotation.State, { store }: LangGraphRunnableConfig) {
  const text = messages.at(-1)?.text ?? "";
  const [found] = (await store?.search(["ada"], { query: text, limit: 1 })) ?? [];
  await store?.put(["ada"], `${messages.length}`, { text });
  return { messages: [new AIMessage(`That is message ${messages.length}. I know: ${found?.value["text"] ?? "nothing yet"}`)] };
}

const graph = new StateGraph(MessagesAnnotation)
  .addNode("answer", answer)
  .addEdge(START, "answer")
  .compile({ checkpointer: new MnemonSaver(mnemon), store: new MnemonStore(mnemon) });

for (const [thread_id, text] of [["1", "I row on Thursdays."], ["1", "And I sing."], ["2", "When do I row?"]] as const) {
  const { messages } = await graph.invoke({ messages: text }, { configurable: { thread_id } });
  console.log(messages.at(-1)?.text);
}
