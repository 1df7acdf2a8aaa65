/** An agent of Mastra whose conversation goes on in another process. Needs `mnemon serve`. */

import { Agent } from "@mastra/core/agent";
import { InMemoryStore, MastraCompositeStore } from "@mastra/core/storage";
import { Memory } from "@mastra/memory";
import { MockLanguageModelV3 } from "ai/test";
import { Mnemon } from "mnemon-engine";
import { MnemonMemory } from "mnemon-engine/mastra";

const mnemon = new Mnemon({ url: process.env.MNEMON_URL ?? "http://127.0.0.1:7411" });
const storage = new MastraCompositeStore({ id: "mnemon", default: new InMemoryStore(), domains: { memory: new MnemonMemory(mnemon.namespace("mastra")) } });

/** Stands for a chat model. */
const model = new MockLanguageModelV3({
  async doGenerate({ prompt }) {
    const text = `I was given ${prompt.filter(({ role }) => role !== "system").length} messages.`;
    const usage = { inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 0, text: 0, reasoning: 0 } };
    return { content: [{ type: "text", text }], finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
  },
});

const memory = new Memory({ storage, options: { lastMessages: 10 } });
const agent = new Agent({ id: "guide", name: "guide", instructions: "Be short.", model: model as never, memory });
for (const text of ["I row on Thursdays.", "When do I row?"]) {
  const { text: answer } = await agent.generate(text, { memory: { thread: "today", resource: "ada" } });
  console.log(answer);
}
