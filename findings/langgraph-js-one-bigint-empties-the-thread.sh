#!/usr/bin/env bash
# Expected: a value that a checkpoint cannot hold is an error, or that value is missing; the messages of the thread are kept.
# Happens: with one BigInt in the state, such as the id of a chat, the default serializer writes a sentence about circular references in place of the
# whole checkpoint, and nothing is raised. From then on each turn of the thread begins with an empty state: every earlier message is gone.
# Package: @langchain/langgraph 1.7.3, @langchain/langgraph-checkpoint 1.2.2 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null \
    @langchain/langgraph@1.7.3 @langchain/langgraph-checkpoint@1.2.2 @langchain/core@1.4.0
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

for (const name of ["langgraph", "langgraph-checkpoint"]) {
  console.log(`@langchain/${name}`, JSON.parse(readFileSync(`node_modules/@langchain/${name}/package.json`, "utf8")).version);
}

/** How many messages the model is shown in each of three turns of a thread, and how many the last turn returns. */
async function messages(chat) {
  const shown = [];
  const graph = new StateGraph(Annotation.Root({ ...MessagesAnnotation.spec, chat: Annotation() }))
    .addNode("model", (state) => {
      shown.push(state.messages.length);
      return { messages: [new AIMessage("Noted.")], chat };
    })
    .addEdge(START, "model")
    .compile({ checkpointer: new MemorySaver() });
  const thread = { configurable: { thread_id: "monday" } };
  let state;
  for (const text of ["We are two", "Book a room in Ely", "Thanks"]) {
    state = await graph.invoke({ messages: [new HumanMessage(text)] }, thread);
  }
  return { shown, returned: state.messages.length };
}

const plain = await messages("9007199254740993");
const big = await messages(9007199254740993n);
console.log("the id is a string:", plain);
console.log("the id is a BigInt:", big);
assert.deepStrictEqual(plain, { shown: [1, 3, 5], returned: 6 });
assert.deepStrictEqual(big, { shown: [1, 1, 1], returned: 2 });
console.log("SEEN: one BigInt, and the thread forgets all");
JS
timeout 60 node run.mjs
