#!/usr/bin/env bash
# Expected: two memories of mem0 for Node with two `collectionName`s have nothing in common; `reset` of the one leaves the other.
# Happens: the default store "memory" takes no notice of `collectionName`. All collections are one table of one file in the home folder, so each has
# the memories of all, also of other programs of the same person, and `reset` of one deletes every memory of every other.
# Package: mem0ai 3.3.1 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 500 npm install --silent --no-audit --no-fund --legacy-peer-deps < /dev/null mem0ai@3.3.1 better-sqlite3@12.11.1
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Memory } from "mem0ai/oss";

console.log("mem0ai", JSON.parse(readFileSync("node_modules/mem0ai/package.json", "utf8")).version);

/** An embedding model on loopback that has the same vector for each text. */
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data)).on("end", () => {
    const data = [JSON.parse(body).input].flat().map((_, index) => ({ object: "embedding", index, embedding: [1, 0, 0, 0] }));
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ object: "list", model: "fixed", data, usage: { prompt_tokens: 1, total_tokens: 1 } }));
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const model = { provider: "openai", config: { apiKey: "none", baseURL: `http://127.0.0.1:${server.address().port}/v1`, model: "fixed" } };
const memoryOf = (collectionName) => new Memory({
  embedder: { ...model, config: { ...model.config, embeddingDims: 4 } },
  llm: model,
  vectorStore: { provider: "memory", config: { dimension: 4, collectionName } },
  historyStore: { provider: "sqlite", config: { historyDbPath: `${process.cwd()}/${collectionName}.db` } },
});
const [work, home] = [memoryOf("work"), memoryOf("home")];
const all = async (memory) => (await memory.getAll({ filters: { user_id: "ada" } })).results.map(({ memory }) => memory);

await work.add("The budget is five million", { userId: "ada", infer: false });
console.log("added to the collection work; home has", await all(home));
assert.deepStrictEqual(await all(home), ["The budget is five million"]);
await home.reset();
console.log("home was reset; work has", await all(work));
assert.deepStrictEqual(await all(work), []);
server.close();
server.closeAllConnections();
console.log("SEEN: two collections in one table");
JS
HOME="$T" MEM0_DIR="$T" MEM0_TELEMETRY=false timeout 60 node run.mjs
