#!/usr/bin/env bash
# Expected: with `semanticRecall` Mastra finds an answer by what the model said in it.
# Happens: of an answer in which the model calls a tool, only the text after the last call is embedded. What it said before, which the store has and
# the person saw, no search finds, and the vector of a long answer is that of a "Done." at its end. A user's message of two texts is embedded whole.
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
import { createServer } from "node:http";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { LibSQLStore, LibSQLVector } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { z } from "zod";

for (const name of ["core", "memory", "libsql"]) {
  console.log(`@mastra/${name}`, JSON.parse(readFileSync(`node_modules/@mastra/${name}/package.json`, "utf8")).version);
}

/** A language model on loopback that says something, calls a tool, and says that it is done. */
const calls = [{ id: "1", type: "function", function: { name: "note", arguments: "{}" } }];
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data)).on("end", () => {
    const isLast = JSON.parse(body).messages.at(-1).role === "tool";
    const message = isLast ? { content: "Done." } : { content: "The landlord is called Smith. I note it.", tool_calls: calls };
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({
      id: "1", object: "chat.completion", created: 1, model: "fixed", usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      choices: [{ index: 0, finish_reason: isLast ? "stop" : "tool_calls", message: { role: "assistant", ...message } }],
    }));
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

/** An embedding model that has the same vector for each text. */
const embedded = [];
const embedder = {
  specificationVersion: "v2", provider: "none", modelId: "fixed", maxEmbeddingsPerCall: 100, supportsParallelCalls: true,
  doEmbed: async ({ values }) => {
    embedded.push(...values);
    return { embeddings: values.map(() => [1, 0, 0, 0]), usage: { tokens: 1 } };
  },
};
const url = `file:${process.cwd()}`;
const memory = new Memory({
  storage: new LibSQLStore({ id: "store", url: `${url}/memory.db` }),
  vector: new LibSQLVector({ id: "vectors", url: `${url}/vectors.db` }),
  embedder,
  options: { semanticRecall: { topK: 2, messageRange: 0, scope: "resource" } },
});
const note = createTool({ id: "note", description: "Notes something", inputSchema: z.object({}), execute: async () => ({ noted: true }) });
const model = { id: "local/fixed", url: `http://127.0.0.1:${server.address().port}/v1`, apiKey: "none" };
const agent = new Agent({ id: "ada", name: "ada", instructions: "Be brief.", model, memory, tools: { note } });

const parts = [{ type: "text", text: "Who is our landlord?" }, { type: "text", text: "Note it." }];
await agent.generate([{ id: "1", role: "user", parts }], { memory: { thread: "monday", resource: "ada" } });
const { messages } = await memory.recall({ threadId: "monday", resourceId: "ada", perPage: false });
const stored = messages.map(({ content }) => content.parts.flatMap(({ text }) => text ?? []));
console.log("stored:", stored);
console.log("embedded:", embedded);
assert.deepStrictEqual(stored[1], ["The landlord is called Smith. I note it.", "Done."]);
assert(embedded.includes("Done.") && embedded.some((text) => text.includes("Who is our landlord?") && text.includes("Note it.")));
assert(!embedded.some((text) => text.includes("Smith")));
server.close();
server.closeAllConnections();
console.log("SEEN: an answer of which the search knows one word");
JS
MASTRA_TELEMETRY_DISABLED=1 HOME="$T" timeout 120 node run.mjs
