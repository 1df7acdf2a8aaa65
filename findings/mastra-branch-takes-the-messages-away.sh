#!/usr/bin/env bash
# Expected: a chat page branches a conversation: it sends the first messages, with a new prompt, for a new thread. Then both threads have the first
# messages.
# Happens: the old thread has lost them. The ids of a page's messages stay what they were, Mastra stores the messages of the request under these ids,
# and its store moves a message whose id it knows to the thread that it is sent for, without a word. From then on the model does not see them in the
# old thread, and deleting the branch would delete them for good.
# Package: @mastra/core 1.71.0, @mastra/memory 1.31.0, @mastra/libsql 1.23.1 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 400 npm install --silent --no-audit --no-fund < /dev/null \
    @mastra/core@1.71.0 @mastra/memory@1.31.0 @mastra/libsql@1.23.1 zod@4.6.7
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Agent } from "@mastra/core/agent";
import { LibSQLStore } from "@mastra/libsql";
import { Memory } from "@mastra/memory";

for (const name of ["core", "memory", "libsql"]) {
  console.log(`@mastra/${name}`, JSON.parse(readFileSync(`node_modules/@mastra/${name}/package.json`, "utf8")).version);
}

/** A language model on loopback that always gives one answer. */
const shown = [];
const message = { role: "assistant", content: "Noted." };
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data)).on("end", () => {
    shown.push(JSON.parse(body).messages.map(({ content }) => content));
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({
      id: "1", object: "chat.completion", created: 1, model: "fixed", choices: [{ index: 0, finish_reason: "stop", message }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    }));
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

const memory = new Memory({ storage: new LibSQLStore({ id: "store", url: `file:${process.cwd()}/memory.db` }) });
const model = { id: "local/fixed", url: `http://127.0.0.1:${server.address().port}/v1`, apiKey: "none" };
const agent = new Agent({ id: "ada", name: "ada", instructions: "Be brief.", model, memory });
const said = (id, role, text) => ({ id, role, parts: [{ type: "text", text }] });
const say = (thread, messages) => agent.generate(messages, { memory: { thread, resource: "ada" } });
const stored = async (threadId) => (await memory.recall({ threadId, resourceId: "ada", perPage: false })).messages;
const texts = async (threadId) => (await stored(threadId)).map(({ content }) => content.parts.flatMap(({ text }) => text ?? []).join());

const first = said("page-1", "user", "Our boat is red");
await say("old", [first]);
const answer = said((await stored("old"))[1].id, "assistant", "Noted.");
await say("old", [first, answer, said("page-2", "user", "It lies in Ely")]);
console.log("old thread:", await texts("old"));
assert.deepStrictEqual(await texts("old"), ["Our boat is red", "Noted.", "It lies in Ely", "Noted."]);

await say("branch", [first, answer, said("page-3", "user", "It lies in Cambridge")]);
console.log("branch:", await texts("branch"));
console.log("old thread:", await texts("old"));
assert.deepStrictEqual(await texts("branch"), ["Our boat is red", "Noted.", "It lies in Cambridge", "Noted."]);
assert.deepStrictEqual(await texts("old"), ["It lies in Ely", "Noted."]);

await say("old", "What colour is it?");
console.log("shown to the model in the old thread:", shown.at(-1));
assert.deepStrictEqual(shown.at(-1), ["Be brief.", "It lies in Ely", "Noted.", "What colour is it?"]);
server.close();
server.closeAllConnections();
console.log("SEEN: a branch that takes the beginning of its parent away");
JS
MASTRA_TELEMETRY_DISABLED=1 HOME="$T" timeout 120 node run.mjs
