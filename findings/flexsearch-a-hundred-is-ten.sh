#!/usr/bin/env bash
# Expected: with the defaults of FlexSearch a search for a number finds the texts that have this number; "hoping" and "hopping" are two words.
# Happens: a letter or a digit that follows the same one is dropped, in texts and in queries: 10 and 100 are one word, 1, 11 and 111 too. And a number
# of more than three digits is cut into pieces of three, each of them a word: a search for 100 finds 1000, and one for 4567 a text that has 456 and 7.
# What is found is neither marked nor ranked as less than what has the number itself.
# Package: flexsearch 0.8.212 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null flexsearch@0.8.212
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import FlexSearch from "flexsearch";

console.log("flexsearch", JSON.parse(readFileSync("node_modules/flexsearch/package.json", "utf8")).version);
const texts = [
  "Rent is 10 a day", "Rent is 100 a week", "Rent is 1000 a month", "The key of room 1", "The key of room 11", "The key of room 111",
  "The code of the shed is 4567", "Row 7 of page 456", "Ada is hoping for a boat", "Ada is hopping on a boat",
];
const index = new FlexSearch.Index();
texts.forEach((text, at) => index.add(at, text));
for (const [query, expected] of [
  ["rent 100", [0, 1, 2]],
  ["key 11", [3, 4, 5]],
  ["4567", [6, 7]],
  ["hoping", [8, 9]],
]) {
  const found = index.search(query).sort();
  console.log(JSON.stringify(query), "as", index.encoder.encode(query), "finds", found.map((at) => texts[at]));
  assert.deepStrictEqual(found, expected);
}
console.log("SEEN: numbers that are other numbers");
JS
timeout 60 node run.mjs
