#!/usr/bin/env bash
# Expected: `trimMessages` of LangChain.js with `includeSystem: true` always keeps the system message, and returns messages.
# Happens: with `startOn: "human"`, as its own documentation shows the two together, it returns a list whose one item is `undefined` as soon as the
# last words of a person do not fit. A few calls of tools after a question are enough for that. The instructions are lost with all the rest. Without
# `startOn` the system message is there, without `includeSystem` the list is empty.
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
import { AIMessage, HumanMessage, SystemMessage, ToolMessage, trimMessages } from "@langchain/core/messages";

console.log("@langchain/core", JSON.parse(readFileSync("node_modules/@langchain/core/package.json", "utf8")).version);
const call = (id) => [
  new AIMessage({ content: "", tool_calls: [{ id, name: "look", args: {} }] }),
  new ToolMessage({ content: "The shed is green.", tool_call_id: id }),
];
const chat = [new SystemMessage("Answer in German."), new HumanMessage("What is in the sheds?"), ...call("1"), ...call("2"), ...call("3")];

for (const [options, expected] of [
  [{ maxTokens: 8, includeSystem: true, startOn: "human" }, ["system", "human", "ai", "tool", "ai", "tool", "ai", "tool"]],
  [{ maxTokens: 5, includeSystem: true }, ["system", "ai", "tool", "ai", "tool"]],
  [{ maxTokens: 5, startOn: "human" }, []],
  [{ maxTokens: 5, includeSystem: true, startOn: "human" }, [undefined]],
]) {
  const trimmed = await trimMessages(chat, { strategy: "last", tokenCounter: (messages) => messages.length, ...options });
  const types = trimmed.map((message) => message?.type);
  console.log(JSON.stringify(options), "->", types);
  assert.deepStrictEqual(types, expected);
}
console.log("SEEN: undefined in the place of the system message");
JS
timeout 60 node run.mjs
