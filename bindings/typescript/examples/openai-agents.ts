/** A conversation with an agent that goes on in another process. Needs `mnemon serve`. */

import { Agent, type Model, Runner, Usage } from "@openai/agents";
import { Mnemon } from "mnemon-engine";
import { MnemonSession } from "mnemon-engine/openai-agents";

const ada = new Mnemon({ url: process.env.MNEMON_URL ?? "http://127.0.0.1:7411" }).namespace("users/ada");

/** Stands for a chat model. */
const model: Model = {
  async getResponse({ input }) {
    const text = `I was given ${input.length} items.`;
    return { usage: new Usage(), output: [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] }] };
  },
  async *getStreamedResponse() {},
};

const runner = new Runner({ tracingDisabled: true });
const agent = new Agent({ name: "guide", model });
for (const text of ["I row on Thursdays.", "When do I row?"]) {
  const { finalOutput } = await runner.run(agent, text, { session: new MnemonSession(ada, "today") });
  console.log(finalOutput);
}
