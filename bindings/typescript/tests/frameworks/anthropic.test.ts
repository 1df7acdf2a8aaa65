/** Anthropic's tool runner, with a model that answers from a list, on the memory tool. */

import Anthropic from "@anthropic-ai/sdk";
import { expect, it } from "vitest";

import { memoryTool } from "mnemon-engine/anthropic";
import { serve } from "./serve.js";

const served = serve();

/** A client whose model calls the tool with these inputs, one after the other, and the requests that it was sent. */
function fake(inputs: object[]) {
  const requests: { messages: { content: unknown }[]; tools: unknown }[] = [];
  const client = new Anthropic({
    apiKey: "none",
    fetch: async (_, init) => {
      requests.push(JSON.parse(String(init?.body)));
      const input = inputs[requests.length - 1];
      const content = input ? [{ type: "tool_use", id: `t${requests.length}`, name: "memory", input }] : [{ type: "text", text: "Done." }];
      const usage = { input_tokens: 1, output_tokens: 1 };
      return Response.json({ id: "m", type: "message", role: "assistant", model: "fake", content, stop_reason: input ? "tool_use" : "end_turn", usage });
    },
  });
  return { client, requests };
}

it("runs the commands of a model, and answers its errors", async () => {
  const namespace = served.mnemon.namespace("users/ada");
  const { client, requests } = fake([
    { command: "create", path: "/memories/sport.md", file_text: "Ada rows.\n" },
    { command: "str_replace", path: "/memories/sport.md", old_str: "rows", new_str: "rows on Thursdays" },
    { command: "insert", path: "/memories/sport.md", insert_line: 0, insert_text: "Sport\n" },
    { command: "rename", old_path: "/memories/sport.md", new_path: "/memories/rowing.md" },
    { command: "view", path: "/memories/rowing.md" },
    { command: "delete", path: "/memories/sport.md" },
    { command: "view", path: "/memories/../secrets" },
  ]);
  const last = await client.beta.messages.toolRunner({
    model: "fake",
    max_tokens: 100,
    messages: [{ role: "user", content: "Remember that I row on Thursdays." }],
    tools: [memoryTool(namespace)],
  });
  expect(last.content).toMatchObject([{ text: "Done." }]);
  expect(requests[0]?.tools).toEqual([{ type: "memory_20250818", name: "memory" }]);
  const results = requests.slice(1).map(({ messages }) => (messages.at(-1)!.content as { content: string; is_error?: boolean }[])[0]!);
  expect(results.map(({ is_error }) => is_error ?? false)).toEqual([false, false, false, false, false, true, true]);
  expect(results[4]?.content).toContain("Ada rows on Thursdays.");
  expect(results[5]?.content).toContain("/memories/sport.md");
  const found = await namespace.namespace("memories").documents.search("When does Ada row?");
  expect(found).toMatchObject([{ key: "rowing.md", value: { text: "Sport\nAda rows on Thursdays.\n" } }]);
});
