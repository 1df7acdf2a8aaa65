#!/usr/bin/env bash
# Expected: `trimMessages` of LangChain.js returns what fits, and leaves the messages that it was given as they are.
# Happens: with `strategy: "first"` and `allowPartial: true` it cuts the text in the caller's own message: what did not fit is gone from the history
# of the chat. A message of which nothing fits is cut to its first line too, and that line is not even in what is returned. The call with the strategy
# "last", on copies, changes nothing.
# Package: @langchain/core 1.4.0 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null @langchain/core@1.4.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { InMemoryChatMessageHistory } from "@langchain/core/chat_history";
import { HumanMessage, trimMessages } from "@langchain/core/messages";

console.log("@langchain/core", JSON.parse(readFileSync("node_modules/@langchain/core/package.json", "utf8")).version);
const words = (messages) => messages.flatMap(({ content }) => content.split(/\s+/)).filter(Boolean).length;
const long = "Our boat\nis red and\nlies in Ely";

async function trimmed(strategy, maxTokens) {
  const history = new InMemoryChatMessageHistory([new HumanMessage("Hello there"), new HumanMessage(long)]);
  const options = { strategy, maxTokens, allowPartial: true, tokenCounter: words };
  const returned = (await trimMessages(await history.getMessages(), options)).map(({ content }) => content);
  const kept = (await history.getMessages()).map(({ content }) => content);
  console.log(strategy, maxTokens, "returns", JSON.stringify(returned), "and leaves", JSON.stringify(kept));
  return { returned, kept };
}

assert.deepStrictEqual(await trimmed("last", 6), { returned: ["is red and\nlies in Ely"], kept: ["Hello there", long] });
assert.deepStrictEqual(await trimmed("first", 4), { returned: ["Hello there", "Our boat\n"], kept: ["Hello there", "Our boat\n"] });
assert.deepStrictEqual(await trimmed("first", 3), { returned: ["Hello there"], kept: ["Hello there", "Our boat\n"] });
console.log("SEEN: a history that is shorter after it was read");
JS
timeout 60 node run.mjs
