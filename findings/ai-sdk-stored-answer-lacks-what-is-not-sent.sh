#!/usr/bin/env bash
# Expected: what `toUIMessageStream` of the AI SDK gives `onEnd`, which its guide saves as the chat, is the answer. `sendSources` and `sendReasoning`
# say what is sent to the page.
# Happens: they say what is stored too. The sources of an answer are in no saved chat, as `sendSources` is false by default, and with `sendReasoning:
# false`, which keeps the reasoning from the page, the reasoning is not saved: in the next turn the model is shown its calls without the reasoning and
# the signature that belong to them. `response.messages` of the same result has the reasoning, `sources` the sources.
# Package: ai 7.0.173 (npm). Seen 2026-11-30.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 400 npm install --silent --no-audit --no-fund < /dev/null ai@7.0.173 zod@4.6.7
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { convertToModelMessages, simulateReadableStream, streamText, toUIMessageStream } from "ai";
import { MockLanguageModelV4 } from "ai/test";

console.log("ai", JSON.parse(readFileSync("node_modules/ai/package.json", "utf8")).version);
const question = { id: "1", role: "user", parts: [{ type: "text", text: "Where is Ely?" }] };
const chunks = [
  { type: "stream-start", warnings: [] },
  { type: "reasoning-start", id: "r" },
  { type: "reasoning-delta", id: "r", delta: "I look it up." },
  { type: "reasoning-end", id: "r", providerMetadata: { some: { signature: "signed" } } },
  { type: "source", sourceType: "url", id: "s", url: "http://example.org/ely", title: "Ely" },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "In England." },
  { type: "text-end", id: "t" },
  { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } } },
];

/** The types of parts of the answer that `onEnd` is given, and of those that the next turn shows the model. */
async function saved(options) {
  const model = new MockLanguageModelV4({ doStream: async () => ({ stream: simulateReadableStream({ chunks }) }) });
  const result = streamText({ model, messages: await convertToModelMessages([question]) });
  let chat;
  const onEnd = ({ messages }) => void (chat = messages);
  for await (const _ of toUIMessageStream({ stream: result.stream, originalMessages: [question], generateMessageId: () => "2", onEnd, ...options }));
  const types = (parts) => parts.map(({ type }) => type).filter((type) => type !== "step-start");
  const response = (await result.response).messages.flatMap(({ content }) => types(content));
  const shown = types((await convertToModelMessages(chat))[1].content);
  const seen = { saved: types(chat[1].parts), shown, response, sources: (await result.sources).length };
  console.log(JSON.stringify(options), seen);
  assert.deepStrictEqual(seen.response, ["reasoning", "text"]);
  assert.strictEqual(seen.sources, 1);
  return [seen.saved, seen.shown];
}

assert.deepStrictEqual(await saved({ sendSources: true }), [["reasoning", "source-url", "text"], ["reasoning", "text"]]);
assert.deepStrictEqual(await saved({}), [["reasoning", "text"], ["reasoning", "text"]]);
assert.deepStrictEqual(await saved({ sendReasoning: false }), [["text"], ["text"]]);
console.log("SEEN: chats without their sources, and a model without its reasoning");
JS
timeout 60 node run.mjs
