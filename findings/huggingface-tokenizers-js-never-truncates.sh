#!/usr/bin/env bash
# Expected: one tokenizer.json gives a text the same tokens in Python and in JavaScript, with the libraries of its makers.
# Happens: the truncation and the padding that the file sets are applied by the one for Python, and left out by the one for JavaScript without a word.
# A model with room for eight tokens is given thirteen, counts of tokens differ, and the vectors of texts that were made by the one are not those of
# the other.
# Package: @huggingface/tokenizers 0.2.0 (npm), tokenizers 0.23.3 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null @huggingface/tokenizers@0.2.0
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check tokenizers==0.23.3
timeout 60 "$T/venv/bin/python" <<'PY'
import json
import tokenizers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

print("tokenizers", tokenizers.__version__)
words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "our", "red", "boat", "lies", "in", "ely", "by", "the", "river", "since", "may"]
tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = Whitespace()
tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
tokenizer.enable_truncation(8)
tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=8)
tokenizer.save("tokenizer.json")
texts = ["our red boat lies in ely by the river since may", "our boat"]
read = Tokenizer.from_file("tokenizer.json")
json.dump([[text, read.encode(text).ids] for text in texts], open("seen.json", "w"))
PY
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const json = (path) => JSON.parse(readFileSync(path, "utf8"));
console.log("@huggingface/tokenizers", json("node_modules/@huggingface/tokenizers/package.json").version);
const file = json("tokenizer.json");
console.log("the file: truncation to", file.truncation.max_length, "and padding to", file.padding.strategy.Fixed);
const tokenizer = new Tokenizer(file, {});
const lengths = json("seen.json").map(([text, python]) => {
  const { ids } = tokenizer.encode(text);
  console.log(JSON.stringify(text), "Python:", python.join(" "), "JavaScript:", ids.join(" "));
  return [python.length, ids.length];
});
assert.deepStrictEqual(lengths, [[8, 13], [8, 4]]);
console.log("SEEN: two lengths of one text by one file");
JS
timeout 60 node run.mjs
