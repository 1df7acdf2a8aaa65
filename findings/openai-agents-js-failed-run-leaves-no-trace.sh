#!/usr/bin/env bash
# Expected: the session of a run that ends in an error, as the model's server is down or the turns are used up, has what happened until then: what the
# user said, and the tools that were called.
# Happens: `run` leaves the session as it was. The mail is sent, and neither the words that asked for it nor the call nor its result are there; asked
# once more, the agent sends the mail again. With `stream: true` the user's words are there, alone.
# Package: @openai/agents-core 0.20.0 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null @openai/agents-core@0.20.0 zod@4.6.7
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { Agent, MemorySession, run, setTracingDisabled, tool, Usage } from "@openai/agents-core";
import { z } from "zod";

console.log("@openai/agents-core", JSON.parse(readFileSync("node_modules/@openai/agents-core/package.json", "utf8")).version);
setTracingDisabled(true);

/** A model that calls the tool, and then is down or goes on so. */
class Model {
  turns = 0;

  constructor(isDown) {
    this.isDown = isDown;
  }

  async getResponse() {
    if (this.turns++ > 0 && this.isDown) throw new Error("the model is down");
    const output = [{ type: "function_call", callId: `call${this.turns}`, name: "sendMail", arguments: "{}", status: "completed" }];
    return { usage: new Usage(), output, responseId: `${this.turns}` };
  }

  async *getStreamedResponse() {
    const { output } = await this.getResponse();
    yield { type: "response_started" };
    yield { type: "response_done", response: { id: "1", usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, output } };
  }
}

for (const [isDown, stream, expected] of [[true, false, []], [false, false, []], [true, true, ["user"]], [false, true, ["user"]]]) {
  let sent = 0;
  const sendMail = tool({ name: "sendMail", description: "Sends it", parameters: z.object({}), execute: async () => `sent ${++sent}` });
  const agent = new Agent({ name: "secretary", model: new Model(isDown), tools: [sendMail] });
  const session = new MemorySession();
  const work = async () => {
    const result = await run(agent, "Send the mail to Ada", { session, stream, maxTurns: isDown ? 5 : 1 });
    if (stream) await result.completed;
  };
  const error = await work().then(() => assert.fail("the run ended well"), ({ message }) => message);
  const kept = (await session.getItems()).map(({ type, role }) => role ?? type);
  console.log(`${error}, stream: ${stream}; mails sent: ${sent}, items in the session:`, kept);
  assert.strictEqual(sent, 1);
  assert.deepStrictEqual(kept, expected);
}
console.log("SEEN: a mail that the session knows nothing of");
JS
timeout 60 node run.mjs
