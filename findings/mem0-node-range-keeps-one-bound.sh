#!/usr/bin/env bash
# Expected: `search` of mem0 for Node with the filter {year: {gte: 2000, lte: 2010}} finds memories of these years, with its own store "memory", the
# default.
# Happens: one bound counts, and the other is dropped without a word. Of two operators on a field the store looks at one alone: 2020 is found too.
# Written as AND of two conditions on the field, which is the long form of the same, the last condition takes the place of the first: 1990 is found
# too.
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
const memory = new Memory({
  embedder: { ...model, config: { ...model.config, embeddingDims: 4 } },
  llm: model,
  vectorStore: { provider: "memory", config: { dimension: 4, dbPath: `${process.cwd()}/memory.db` } },
  historyStore: { provider: "sqlite", config: { historyDbPath: `${process.cwd()}/history.db` } },
});

for (const year of [1990, 2000, 2010, 2020]) {
  await memory.add(`What Ada did in ${year}`, { userId: "ada", infer: false, metadata: { year } });
}
for (const [filter, expected] of [
  [{ year: { gte: 2000 } }, [2000, 2010, 2020]],
  [{ year: { lte: 2010 } }, [1990, 2000, 2010]],
  [{ year: { gte: 2000, lte: 2010 } }, [2000, 2010, 2020]],
  [{ AND: [{ year: { gte: 2000 } }, { year: { lte: 2010 } }] }, [1990, 2000, 2010]],
  [{ AND: [{ year: { lte: 2010 } }, { year: { gte: 2000 } }] }, [2000, 2010, 2020]],
]) {
  const { results } = await memory.search("What did Ada do?", { filters: { user_id: "ada", ...filter } });
  const years = results.map(({ metadata }) => metadata.year).sort();
  console.log(JSON.stringify(filter), "->", years.join(" "));
  assert.deepStrictEqual(years, expected);
}
server.close();
server.closeAllConnections();
console.log("SEEN: a range of which one end is open");
JS
HOME="$T" MEM0_DIR="$T" MEM0_TELEMETRY=false timeout 60 node run.mjs
