#!/usr/bin/env bash
# Expected: `read_text_file` of the MCP filesystem server with `tail: 1` gives the last line of a file, and an edit of one line changes that line.
# Happens: of a file that ends with a line break, as files of lines do, the last line is what comes after the break: `tail: 1` gives an empty text,
# and `tail: 3` two lines. `head` counts as one would expect. An edit of a file with the line ends of Windows writes every line of it anew, with other
# line ends, and the diff that it returns shows one line. And an edit whose text is there twice changes the first place, without a word about the
# other.
# Package: @modelcontextprotocol/server-filesystem 2026.8.31 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null \
    @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/sdk@1.29.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const server = "node_modules/@modelcontextprotocol/server-filesystem";
console.log("@modelcontextprotocol/server-filesystem", JSON.parse(readFileSync(`${server}/package.json`, "utf8")).version);
mkdirSync("notes");
const path = `${realpathSync("notes")}/log.txt`;
const client = new Client({ name: "reader", version: "1" });
await client.connect(new StdioClientTransport({ command: "node", args: [`${server}/dist/index.js`, realpathSync("notes")], stderr: "ignore" }));
const call = async (name, given) => (await client.callTool({ name, arguments: { path, ...given } })).content[0].text;

writeFileSync(path, "Monday: rain\nTuesday: sun\nWednesday: snow\n");
for (const [given, expected] of [
  [{ head: 1 }, "Monday: rain"],
  [{ tail: 1 }, ""],
  [{ tail: 3 }, "Tuesday: sun\nWednesday: snow\n"],
]) {
  const text = await call("read_text_file", given);
  console.log(JSON.stringify(given), "->", JSON.stringify(text));
  assert.strictEqual(text, expected);
}

writeFileSync(path, "boat: red\r\ncar: red\r\nshed: green\r\n");
const diff = await call("edit_file", { edits: [{ oldText: "red", newText: "blue" }] });
console.log(diff.trim());
console.log("the file:", JSON.stringify(readFileSync(path, "utf8")));
assert.strictEqual(readFileSync(path, "utf8"), "boat: blue\ncar: red\nshed: green\n");
assert.deepStrictEqual(diff.split("\n").filter((line) => /^[+-]\w/.test(line)), ["-boat: red", "+boat: blue"]);
await client.close();
console.log("SEEN: an empty last line, and line ends that an edit of another line changes");
JS
timeout 60 node run.mjs
