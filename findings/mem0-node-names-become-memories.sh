#!/usr/bin/env bash
# Expected: the name that one gives the file of a memory, `dbPath` of mem0's default store for Node, is of no consequence.
# Happens: if it does not end with ".db", the names and phrases that mem0 takes out of each memory, to find it again, are memories themselves. It puts
# ".db" -> "_entities.db" in the path for the file of these names; "memory.sqlite" has no ".db", so both stores are one table of one file. `getAll`
# has "Cambridge" and "boat in" beside what was added, and the best hit of a search for a name is that name alone.
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

/** An embedding model on loopback that has a vector for each letter, and a language model that always extracts one sentence. */
const said = "Ada Lovelace keeps the red rowing boat in Cambridge";
const count = (text, at) => [...text.toLowerCase()].filter((letter) => letter.charCodeAt(0) % 64 === at).length;
const vector = (text) => Array.from({ length: 64 }, (_, at) => 0.05 + count(text, at));
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data)).on("end", () => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const embeddings = () => [JSON.parse(body).input].flat().map((text, index) => ({ object: "embedding", index, embedding: vector(text) }));
    const message = { role: "assistant", content: JSON.stringify({ memory: [{ id: "0", text: said }] }) };
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(request.url.endsWith("/embeddings")
      ? { object: "list", model: "fixed", data: embeddings(), usage }
      : { id: "1", object: "chat.completion", model: "fixed", choices: [{ index: 0, finish_reason: "stop", message }], usage }));
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const model = { provider: "openai", config: { apiKey: "none", baseURL: `http://127.0.0.1:${server.address().port}/v1`, model: "fixed" } };
const memoryIn = (file) => new Memory({
  embedder: { ...model, config: { ...model.config, embeddingDims: 64 } },
  llm: model,
  vectorStore: { provider: "memory", config: { dimension: 64, dbPath: `${process.cwd()}/${file}` } },
  historyStore: { provider: "sqlite", config: { historyDbPath: `${process.cwd()}/history.db` } },
});

const kept = {};
for (const file of ["one.db", "two.sqlite"]) {
  const memory = memoryIn(file);
  const { results } = await memory.add("Our red rowing boat is in Cambridge", { userId: "ada" });
  const all = await memory.getAll({ filters: { user_id: "ada" } });
  const found = await memory.search("Cambridge", { filters: { user_id: "ada" } });
  kept[file] = { added: results.map(({ memory }) => memory), all: all.results.map(({ memory }) => memory), first: found.results[0].memory };
  console.log(file, kept[file]);
}
assert.deepStrictEqual(kept["one.db"], { added: [said], all: [said], first: said });
assert.deepStrictEqual(kept["two.sqlite"].added, [said]);
assert(kept["two.sqlite"].all.length > 2 && kept["two.sqlite"].all.includes("Cambridge"));
assert.strictEqual(kept["two.sqlite"].first, "Cambridge");
server.close();
server.closeAllConnections();
console.log("SEEN: names from a memory that are memories themselves");
JS
HOME="$T" MEM0_DIR="$T" MEM0_TELEMETRY=false timeout 60 node run.mjs
