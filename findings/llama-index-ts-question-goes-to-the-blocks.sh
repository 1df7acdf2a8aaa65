#!/usr/bin/env bash
# Expected: a memory of LlamaIndex for TypeScript whose short-term part is full moves the oldest messages into its blocks, and shows the model the
# newest.
# Happens: with the message that makes it full, all messages are moved, this one too. What `getLLM` then gives the model has what the blocks made of
# the chat, and not the question that the person has just asked, nor any message of hers. The next answer starts an empty short-term part.
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
  { role: "user", content: "What colour has the boat that lies in Ely, and since when does it lie there?" },
];
const llm = { metadata: {}, complete: async () => ({ text: JSON.stringify({ facts: ["The boat is red"] }) }) };
const block = factExtractionBlock({ llm, maxFacts: 5, priority: 1 });
const memory = createMemory({ tokenLimit: 60, shortTermTokenLimitRatio: 0.7, memoryBlocks: [block] });
const seen = [];
for (const message of chat) {
  await memory.add(message);
  const shown = await memory.getLLM();
  console.log(`after ${JSON.stringify(message.content)} the model is shown`, shown.map(({ role, content }) => `${role}: ${content}`));
  seen.push(shown.map(({ role }) => role));
}
assert.deepStrictEqual(seen, [["memory", "user"], ["memory", "user", "assistant"], ["memory"]]);
console.log("SEEN: a model that is not shown the question");
JS
timeout 60 node run.mjs
