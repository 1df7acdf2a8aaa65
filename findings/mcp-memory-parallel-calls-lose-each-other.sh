#!/usr/bin/env bash
# Expected: what a call of the MCP memory server says it stored is stored, also when a model makes several calls in one answer.
# Happens: each call reads the whole file, adds its part and writes the file, and calls are not kept apart. Of eight calls that are sent together, each
# is answered with the entity that it created, and the graph has one of them. The seven others are lost, without an error.
# Package: @modelcontextprotocol/server-memory 2026.8.31 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null \
    @modelcontextprotocol/server-memory@2026.8.31 @modelcontextprotocol/sdk@1.29.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const server = "node_modules/@modelcontextprotocol/server-memory";
console.log("@modelcontextprotocol/server-memory", JSON.parse(readFileSync(`${server}/package.json`, "utf8")).version);

/** Creates an entity for each friend, by calls of one answer or one after the other: how many answers have it, and how many the graph. */
async function created(name, together) {
  const client = new Client({ name: "reader", version: "1" });
  const env = { ...process.env, MEMORY_FILE_PATH: `${process.cwd()}/${name}.jsonl` };
  await client.connect(new StdioClientTransport({ command: "node", args: [`${server}/dist/index.js`], env, stderr: "ignore" }));
  const call = (name, given = {}) => client.callTool({ name, arguments: given });
  const friend = (at) => call("create_entities", { entities: [{ name: `friend ${at}`, entityType: "person", observations: [`rows on day ${at}`] }] });
  const answers = [];
  if (together) answers.push(...(await Promise.all([...Array(8).keys()].map(friend))));
  else for (let at = 0; at < 8; at++) answers.push(await friend(at));
  const graph = await call("read_graph");
  await client.close();
  return { answered: answers.filter((answer) => !answer.isError && answer.structuredContent.entities.length === 1).length,
    stored: graph.structuredContent.entities.length };
}

const apart = await created("apart", false);
const together = await created("together", true);
console.log("one after the other:", apart);
console.log("in one answer:      ", together);
assert.deepStrictEqual(apart, { answered: 8, stored: 8 });
assert(together.answered === 8 && together.stored < 8, together);
console.log("SEEN: memories that were answered as stored are lost");
JS
timeout 60 node run.mjs
