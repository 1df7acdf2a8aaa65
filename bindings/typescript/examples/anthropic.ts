/** Claude's memory tool, whose files are in a memory. Needs `mnemon serve`. */

import Anthropic from "@anthropic-ai/sdk";
import { Mnemon } from "mnemon-engine";
import { memoryTool } from "mnemon-engine/anthropic";

const ada = new Mnemon({ url: process.env.MNEMON_URL ?? "http://127.0.0.1:7411" }).namespace("users/ada");

/** Stands for the model: it writes a file, looks at it, and answers. */
const inputs = [
  { command: "create", path: "/memories/sport.md", file_text: "Ada rows on Thursdays." },
  { command: "view", path: "/memories/sport.md" },
];
const client = new Anthropic({
  apiKey: "none",
  fetch: async () => {
    const input = inputs.shift();
    const content = input ? [{ type: "tool_use", id: `t${inputs.length}`, name: "memory", input }] : [{ type: "text", text: "You row on Thursdays." }];
    return Response.json({ type: "message", role: "assistant", content, stop_reason: input ? "tool_use" : "end_turn", usage: {} });
  },
});

const answer = await client.beta.messages.toolRunner({
  model: "fake",
  max_tokens: 1000,
  messages: [{ role: "user", content: "When do I row?" }],
  tools: [memoryTool(ada)],
});
console.log(answer.content);
console.log((await ada.namespace("memories").documents.search("rowing"))[0]?.value);
