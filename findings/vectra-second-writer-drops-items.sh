#!/usr/bin/env bash
# Expected: what `insertItem` of a vectra index has stored is kept when another program, or another part of this one, stores something else there.
# Happens: a LocalIndex reads its file once, and each write puts all that it knows in the place of the whole file. Of two that are open, the one that
# writes later drops everything that the other stored since: no error, no merge, and the writes do not need to be at the same time.
# Package: vectra 0.15.0 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null vectra@0.15.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { LocalIndex } from "vectra";

console.log("vectra", JSON.parse(readFileSync("node_modules/vectra/package.json", "utf8")).version);
const note = (id, text) => ({ id, vector: [1, 0], metadata: { text } });
const stored = async () => (await new LocalIndex("index").listItems()).map(({ id }) => id);

const writer = new LocalIndex("index");
await writer.createIndex();
await writer.insertItem(note("first", "Our boat is red"));
const other = new LocalIndex("index");
console.log("the other has read", (await other.listItems()).length, "item");

for (const id of ["second", "third"]) await writer.insertItem(note(id, "Something else"));
console.log("stored:", await stored());
assert.deepStrictEqual(await stored(), ["first", "second", "third"]);
await other.insertItem(note("fourth", "The shed is green"));
console.log("after the other has stored one:", await stored());
assert.deepStrictEqual(await stored(), ["first", "fourth"]);
await writer.deleteItem("third");
console.log("after the first has deleted one:", await stored());
assert.deepStrictEqual(await stored(), ["first", "second"]);
console.log("SEEN: items that another item takes away");
JS
timeout 60 node run.mjs
