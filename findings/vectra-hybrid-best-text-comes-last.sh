#!/usr/bin/env bash
# Expected: a search of vectra with `isBm25: true` adds hits by words to those by meaning, and the text that is best by both is first.
# Happens: a text that is among the hits by meaning gets no score for its words: BM25 counts the others alone. Its scores are not between 0 and 1 as
# those by meaning are, and documents are sorted by the one number or the other. So the text that has the meaning and the words is behind a text that
# has a word and was too far off to be a hit by meaning.
# Package: vectra 0.15.0 (npm). Seen 2026-11-30.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null vectra@0.15.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { LocalDocumentIndex } from "vectra";

console.log("vectra", JSON.parse(readFileSync("node_modules/vectra/package.json", "utf8")).version);
const best = "The harbour of Ely is where our red boat lies";
const other = "A recipe for a sauce in a gravy boat";
const texts = [best, ...Array.from({ length: 8 }, (_, at) => `Notes of day ${at} about the harbour`), other];

/** An embedding model that knows whether a text is about the harbour. */
const embed = (text) => (text === best || text.startsWith("Where") ? [1, 0] : text.startsWith("Notes") ? [0.8, 0.6] : [0, 1]);
const createEmbeddings = async (inputs) => ({ status: "success", output: [inputs].flat().map(embed) });
const index = new LocalDocumentIndex({ folderPath: "index", embeddings: { maxTokens: 8000, createEmbeddings } });
await index.createIndex({ version: 1 });
for (const [at, text] of texts.entries()) await index.upsertDocument(`${at}.txt`, text);

const ranked = {};
for (const isBm25 of [false, true]) {
  const found = await index.queryDocuments("Where is the harbour with the red boat?", { maxDocuments: 10, maxChunks: 5, isBm25 });
  ranked[isBm25] = found.map(({ uri }) => texts[parseInt(uri)]);
  console.log(`isBm25: ${isBm25}`);
  for (const { uri, score } of found.slice(0, 7)) console.log("  ", score.toFixed(2), texts[parseInt(uri)]);
}
assert.strictEqual(ranked[false][0], best);
assert(!ranked[false].includes(other));
assert(ranked[true].indexOf(other) < ranked[true].indexOf(best));
console.log("SEEN: a sauce before the harbour");
JS
timeout 60 node run.mjs
