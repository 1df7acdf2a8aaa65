#!/usr/bin/env bash
# Expected: what a model gives `create_entities` about a person whom the memory knows already is added to that person, or refused.
# Happens: the entity is left out, with its observations, and the call is answered as done, with an empty list. `add_observations` for a person whom it
# does not know is an error, and then the observations of the same call for people whom it knows are not stored either. And `search_nodes` looks for
# the query as one piece of text: two words that both are in an observation, in another order, find nothing.
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
const client = new Client({ name: "reader", version: "1" });
const env = { ...process.env, MEMORY_FILE_PATH: `${process.cwd()}/memory.jsonl` };
await client.connect(new StdioClientTransport({ command: "node", args: [`${server}/dist/index.js`], env, stderr: "ignore" }));
const call = (name, given = {}) => client.callTool({ name, arguments: given });
const ada = (...observations) => ({ entities: [{ name: "Ada", entityType: "person", observations }] });
const known = async () => (await call("read_graph")).structuredContent.entities.map(({ observations }) => observations);

await call("create_entities", ada("Ada rows her red boat"));
const again = await call("create_entities", ada("Ada is allergic to nuts"));
console.log("created again:", JSON.stringify(again.structuredContent), "error:", again.isError ?? false);
console.log("the memory has", JSON.stringify(await known()));
assert(!again.isError && again.structuredContent.entities.length === 0);
assert.deepStrictEqual(await known(), [["Ada rows her red boat"]]);

const both = await call("add_observations", { observations: [
  { entityName: "Ada", contents: ["Ada moved to Ely"] }, { entityName: "Bo", contents: ["Bo cooks"] },
] });
console.log("added for Ada and for Bo, who is new:", both.content[0].text);
assert(both.isError);
assert.deepStrictEqual(await known(), [["Ada rows her red boat"]]);

for (const [query, count] of [["red boat", 1], ["boat red", 0], ["Ada boat", 0]]) {
  const found = (await call("search_nodes", { query })).structuredContent.entities.length;
  console.log(`search for "${query}": ${found}`);
  assert.strictEqual(found, count);
}
await client.close();
console.log("SEEN: new words about a known person are dropped");
JS
timeout 60 node run.mjs
