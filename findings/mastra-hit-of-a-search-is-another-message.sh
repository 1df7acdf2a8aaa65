#!/usr/bin/env bash
# Expected: `recall` of Mastra with a text to search for returns the messages of other threads that mean the same.
# Happens: where messages of a thread have the same time, as those of an imported chat with times in seconds do, it returns another message in the
# place of the one that was found: always the last with this time, whatever the question was. The vector store has the right hit. The store of libSQL
# fetches a hit by its thread and time, not by its id. Mastra's store in memory returns the right one.
# Package: @mastra/core 1.71.0, @mastra/memory 1.31.0, @mastra/libsql 1.23.1 (npm). Seen 2026-11-30.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 400 npm install --silent --no-audit --no-fund < /dev/null \
    @mastra/core@1.71.0 @mastra/memory@1.31.0 @mastra/libsql@1.23.1 zod@4.6.7
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { InMemoryStore } from "@mastra/core/storage";
import { LibSQLStore, LibSQLVector } from "@mastra/libsql";
import { Memory } from "@mastra/memory";

for (const name of ["core", "memory", "libsql"]) {
  console.log(`@mastra/${name}`, JSON.parse(readFileSync(`node_modules/@mastra/${name}/package.json`, "utf8")).version);
}

/** An embedding model that counts words. */
const words = ["alarm", "boat", "shed", "code", "red", "green", "what", "is"];
const vector = (text) => words.map((word) => 0.01 + text.toLowerCase().split(/\W+/).filter((other) => other === word).length);
const embedder = {
  specificationVersion: "v2", provider: "none", modelId: "words", maxEmbeddingsPerCall: 100, supportsParallelCalls: true,
  doEmbed: async ({ values }) => ({ embeddings: values.map(vector), usage: { tokens: 1 } }),
};
const expected = ["The alarm code is 4711", "Our boat is red", "The shed is green"];
const createdAt = new Date("2026-01-01T10:00:00Z");
const message = (id, text) => {
  return { id, threadId: "old", resourceId: "ada", role: "user", createdAt, content: { format: 2, parts: [{ type: "text", text }] } };
};

async function hits(storage, path) {
  const vectors = new LibSQLVector({ id: "vectors", url: `file:${process.cwd()}/${path}` });
  const semanticRecall = { topK: 1, messageRange: 0, scope: "resource" };
  const memory = new Memory({ storage, vector: vectors, embedder, options: { lastMessages: 10, semanticRecall } });
  for (const threadId of ["old", "new"]) await memory.createThread({ threadId, resourceId: "ada" });
  await memory.saveMessages({ messages: expected.map((text, at) => message(`${at}`, text)) });
  const seen = [];
  for (const question of ["What is the alarm code?", "Is the boat red?", "Is the shed green?"]) {
    const [index] = await vectors.listIndexes();
    const [best] = await vectors.query({ indexName: index, queryVector: vector(question), topK: 1 });
    const { messages } = await memory.recall({ threadId: "new", resourceId: "ada", vectorSearchString: question });
    const returned = messages.map(({ content }) => content.parts[0].text).join();
    console.log(question, "the vector store:", best.metadata.content, "| recall:", returned);
    seen.push(returned);
  }
  return seen;
}

console.log("in memory");
assert.deepStrictEqual(await hits(new InMemoryStore(), "one.db"), expected);
console.log("in libSQL");
const store = new LibSQLStore({ id: "store", url: `file:${process.cwd()}/memory.db` });
assert.deepStrictEqual(await hits(store, "two.db"), ["The shed is green", "The shed is green", "The shed is green"]);
console.log("SEEN: one answer to three questions");
JS
MASTRA_TELEMETRY_DISABLED=1 HOME="$T" timeout 120 node run.mjs
