#!/usr/bin/env bash
# Expected: an item that `deleteItem` removed from a vectra index, or that `upsertItem` replaced, is gone from its folder.
# Happens: an index with `metadata_config.indexed` has the metadata of each item in a file of its own, and nothing ever deletes such a file: the
# deleted text, and each text that was replaced, can be read there. A search with a filter on a field that is not indexed finds nothing, and with
# `$ne` nothing either, without a word.
# Package: vectra 0.15.0 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null vectra@0.15.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readdirSync, readFileSync } from "node:fs";
import { LocalIndex } from "vectra";

console.log("vectra", JSON.parse(readFileSync("node_modules/vectra/package.json", "utf8")).version);
const note = (id, text) => ({ id, vector: [1, 0], metadata: { user: "ada", text } });
const texts = () => readdirSync("index").map((name) => JSON.parse(readFileSync(`index/${name}`, "utf8")).text).filter(Boolean).sort();

const index = new LocalIndex("index");
await index.createIndex({ version: 1, metadata_config: { indexed: ["user"] } });
await index.insertItem(note("boat", "Our boat is red"));
await index.insertItem(note("shed", "The shed is green"));
for (const [filter, count] of [[{ user: { $eq: "ada" } }, 2], [{ text: { $eq: "Our boat is red" } }, 0], [{ text: { $ne: "Our boat is red" } }, 0]]) {
  const found = await index.queryItems([1, 0], "", 5, filter);
  console.log(JSON.stringify(filter), "finds", found.length);
  assert.strictEqual(found.length, count);
}

await index.upsertItem(note("shed", "The shed is blue"));
await index.deleteItem("boat");
const listed = (await index.queryItems([1, 0], "", 5)).map(({ item }) => item.metadata.text);
console.log("the index has", listed);
console.log("its folder has", texts());
assert.deepStrictEqual(listed, ["The shed is blue"]);
assert.deepStrictEqual(texts(), ["Our boat is red", "The shed is blue", "The shed is green"]);
console.log("SEEN: words that were deleted, and words that were replaced");
JS
timeout 60 node run.mjs
