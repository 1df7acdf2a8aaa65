#!/usr/bin/env bash
# Expected: BM25 of the package okapibm25 scores texts by the words of the query, in any language, and the constants are those that one gives it.
# Happens: only letters a to z, digits and "_" count as words, so texts in Cyrillic or Chinese are 0 words long, the mean length is 0, and every score
# is NaN: sorted by score they stay in the order that they had. In English a word is any place where its letters are, "art" in "party" and "start"
# too, so that a text without the word is first. And `b: 0`, which turns the length of texts off, is taken for no constant: it is 0.75.
# Package: okapibm25 1.4.1 (npm). Seen 2026-11-30.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null okapibm25@1.4.1
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import okapi from "okapibm25";

console.log("okapibm25", JSON.parse(readFileSync("node_modules/okapibm25/package.json", "utf8")).version);
const score = okapi.default ?? okapi;
const show = (texts, words, constants) => {
  const scores = score(texts, words, constants);
  console.log(words.join(" "), constants ?? "", texts.map((text, at) => `${text}: ${scores[at].toFixed(3)}`));
  return scores;
};

const russian = ["сарай зелёный", "дом белый", "лодка красная"];
assert(show(russian, ["лодка"]).every(Number.isNaN));
const sorted = score(russian, ["лодка"], undefined, (one, other) => other.score - one.score);
console.log("sorted by score:", sorted.map(({ document }) => document));
assert.strictEqual(sorted[0].document, "сарай зелёный");

const [party, art] = show(["the party starts with a cart", "a book about modern art here", "the shed is green"], ["art"]);
assert(party > art && art > 0);

const [short, long] = show(["a boat", "a boat that lies since May in the harbour of Ely", "the shed is green"], ["boat"], { b: 0, k1: 1.2 });
assert(short - long > 0.1);
console.log("SEEN: scores that are no numbers");
JS
timeout 60 node run.mjs
