#!/usr/bin/env bash
# Expected: a search of Orama with `where: { user: "ada@example.org" }`, on a field of type string, finds what belongs to this user.
# Happens: it finds what shares one word with the value. An address is cut at "@" and ".", so that everybody with an address of the same company
# passes, and "ada lovelace" lets in every other Lovelace. The same call on a field of type enum compares the whole value. And `update` of a document
# that is given without an id stores it under a new one.
# Package: @orama/orama 3.1.18 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null @orama/orama@3.1.18
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { create, insert, search, update } from "@orama/orama";

console.log("@orama/orama", JSON.parse(readFileSync("node_modules/@orama/orama/package.json", "utf8")).version);
const notes = create({ schema: { text: "string", user: "string", owner: "enum" } });
for (const [id, user] of [["1", "ada@example.org"], ["2", "bob@example.org"], ["3", "ada lovelace"], ["4", "grace lovelace"]]) {
  insert(notes, { id, text: "The boat is red", user, owner: user });
}
for (const [where, expected] of [
  [{ owner: { eq: "ada@example.org" } }, ["1"]],
  [{ user: "ada@example.org" }, ["1", "2", "3"]],
  [{ owner: { eq: "ada lovelace" } }, ["3"]],
  [{ user: "ada lovelace" }, ["1", "3", "4"]],
]) {
  const ids = (await search(notes, { term: "boat", where })).hits.map(({ id }) => id).sort();
  console.log(JSON.stringify(where), "->", ids);
  assert.deepStrictEqual(ids, expected);
}
const id = await update(notes, "4", { text: "The boat is blue", user: "grace lovelace", owner: "grace lovelace" });
console.log("after an update the id of 4 is", id);
assert.notStrictEqual(id, "4");
console.log("SEEN: notes of other people");
JS
timeout 60 node run.mjs
