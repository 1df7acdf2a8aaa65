/** A model that knows what earlier sessions said, and one with tools for its memory. Needs `mnemon serve`. */

import { generateText, stepCountIs, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Mnemon } from "mnemon-engine";
import { memoryMiddleware, memoryTools } from "mnemon-engine/ai-sdk";

const mnemon = new Mnemon({ url: process.env.MNEMON_URL ?? "http://127.0.0.1:7411" });
const ada = mnemon.namespace("examples/ai-sdk");
const usage = { inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 0, text: 0, reasoning: 0 } };

/** Stands for a chat model: it says what its memory has. */
const model = new MockLanguageModelV4({
  async doGenerate({ prompt }) {
    const memory = prompt.find(({ role, content }) => role === "system" && String(content).startsWith("<memory>"));
    const text = `I know: ${/"text":"([^"]*)"/.exec(String(memory?.content))?.[1] ?? "nothing yet"}`;
    return { content: [{ type: "text", text }], finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
  },
});

for (const [session, prompt] of [["monday", "I row on Thursdays."], ["tuesday", "When do I row?"]] as const) {
  const remembering = wrapLanguageModel({ model, middleware: memoryMiddleware(ada, { session, k: 1 }) });
  console.log((await generateText({ model: remembering, prompt })).text);
}

/** Stands for a model that calls a tool, and then answers. */
const calling = new MockLanguageModelV4({
  async doGenerate({ prompt }) {
    const done = prompt.at(-1)?.role === "tool";
    const call = { type: "tool-call" as const, toolCallId: "1", toolName: "addMemory", input: JSON.stringify({ text: "Ada sings on Mondays." }) };
    const content = done ? [{ type: "text" as const, text: "I will remember that." }] : [call];
    return { content, finishReason: { unified: done ? "stop" : "tool-calls", raw: undefined }, usage, warnings: [] };
  },
});
const { text } = await generateText({ model: calling, prompt: "I sing on Mondays.", tools: memoryTools(ada), stopWhen: stepCountIs(3) });
console.log(text, (await ada.recall("When does Ada sing?", { k: 1 })).hits[0]?.content);
