#!/usr/bin/env bash
# Expected: if the model that extracts facts fails, a memory of LlamaIndex for TypeScript keeps the messages and tries again, or raises.
# Happens: `add` ends well, with a warning on the console. The messages have left the short-term part, the block has no facts of them, and nothing
# tries again: no model is ever shown them. JSON in a Markdown fence, as models often give it, is such a failure. And where it does not fail, the
# model reads other words than were said: "$$5" is "$5" there, and "$&" is "{{conversation}}", as the prompt is made with String.replace.
# Package: @llamaindex/core 0.6.23 (npm). Seen 2026-11-30.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null @llamaindex/core@0.6.23 @llamaindex/env@0.1.31
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createMemory, factExtractionBlock } from "@llamaindex/core/memory";

console.log("@llamaindex/core", JSON.parse(readFileSync("node_modules/@llamaindex/core/package.json", "utf8")).version);
const chat = [
  { role: "user", content: "Our boat is red and it lies in Ely since the month of May" },
  { role: "assistant", content: "I see, a red boat that lies in Ely since May" },
  { role: "user", content: "The berth is $$5 a day, $& more. What is that in all for the month of May and the month of June?" },
];
const facts = JSON.stringify({ facts: ["The boat is red"] });
const prompts = [];
for (const [name, answer, expected] of [
  ["as JSON", () => facts, ["memory: The boat is red", "assistant: About 300"]],
  ["in a fence", () => `\`\`\`json\n${facts}\n\`\`\``, ["memory: ", "assistant: About 300"]],
  ["not at all", () => { throw new Error("the model is down"); }, ["memory: ", "assistant: About 300"]],
]) {
  const complete = async ({ prompt }) => {
    prompts.push(prompt);
    return { text: answer() };
  };
  const logger = { log() {}, error() {}, warn: (text) => console.log("a warning:", text.replace(/block-[^:]*/, "block")) };
  const block = factExtractionBlock({ llm: { metadata: {}, complete }, maxFacts: 5, priority: 1 });
  const memory = createMemory({ tokenLimit: 60, shortTermTokenLimitRatio: 0.7, memoryBlocks: [block], logger });
  for (const message of [...chat, { role: "assistant", content: "About 300" }]) await memory.add(message);
  const shown = (await memory.getLLM()).map(({ role, content }) => `${role}: ${content}`);
  console.log(`the model gives the facts ${name}: the next one is shown`, shown);
  assert.deepStrictEqual(shown, expected);
}
const read = prompts[0].split("\n").find((line) => line.includes("The berth")).trim();
console.log("said:", chat[2].content);
console.log("read:", read);
assert(read.startsWith("The berth is $5 a day, {{conversation}} more."));
assert.strictEqual(prompts.length, 3);
console.log("SEEN: words that no model is shown again");
JS
timeout 60 node run.mjs
