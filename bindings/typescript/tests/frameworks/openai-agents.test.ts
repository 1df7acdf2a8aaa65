/** The runner of OpenAI's Agents SDK, with a model that answers from a list, on the session. */

import { Agent, type AgentInputItem, type Model, type ModelRequest, Runner, tool, Usage } from "@openai/agents";
import { expect, it } from "vitest";
import { z } from "zod";

import { MnemonSession } from "mnemon-engine/openai-agents";
import { serve } from "./serve.js";

const served = serve();
let sessions = 0;

function newSession(): MnemonSession {
  return new MnemonSession(served.mnemon.namespace("agents/ada"), `s${sessions++}`);
}

function said(text: string): AgentInputItem {
  return { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] };
}

/** A model that gives these items, one for each call, and the input of each call. */
function fake(...outputs: AgentInputItem[]): { model: Model; inputs: ModelRequest["input"][] } {
  const inputs: ModelRequest["input"][] = [];
  const model: Model = {
    async getResponse({ input }) {
      inputs.push(input);
      return { usage: new Usage(), output: [outputs[inputs.length - 1]] as never };
    },
    async *getStreamedResponse() {},
  };
  return { model, inputs };
}

const runner = new Runner({ tracingDisabled: true });
const user = (content: string): AgentInputItem => ({ type: "message", role: "user", content });
const call: AgentInputItem = { type: "function_call", callId: "c1", name: "clock", arguments: "{\"zone\":\"UTC\"}", status: "completed" };
const result: AgentInputItem = { type: "function_call_result", callId: "c1", name: "clock", output: { type: "text", text: "12:00" }, status: "completed" };
const reasoning: AgentInputItem = { type: "reasoning", id: "r1", content: [], providerData: { encrypted: "abc" } };

it("gives a later run what an earlier one said, with calls of tools", async () => {
  const session = newSession();
  const clock = tool({ name: "clock", description: "The time.", parameters: z.object({ zone: z.string() }), execute: async () => "12:00" });
  const first = fake(call, said("It is noon."));
  const second = fake(said("You asked for the time."));
  const answer = await runner.run(new Agent({ name: "a", model: first.model, tools: [clock] }), "What time is it?", { session });
  expect(answer.finalOutput).toBe("It is noon.");
  await runner.run(new Agent({ name: "a", model: second.model }), "What did I ask?", { session: new MnemonSession(session.namespace, session.sessionId) });
  expect((second.inputs[0] as AgentInputItem[]).map((item) => item.type ?? "message")).toEqual([
    "message", "function_call", "function_call_result", "message", "message",
  ]);
  const { hits } = await session.namespace.recall("Which time is it?", { k: 1, role: "user", session: session.sessionId });
  expect(hits[0]?.content).toBe("What time is it?");
});

it("keeps items of every kind as they are, and pops and clears them", async () => {
  const session = newSession();
  const picture: AgentInputItem = { type: "message", role: "user", content: [{ type: "input_image", image: "data:image/png;base64,AA==" }] };
  const items = [user("Hello"), { role: "system", content: "Be short." } as AgentInputItem, call, result, reasoning, picture, said(" ")];
  await session.addItems([]);
  await session.addItems(items);
  expect(await session.getItems()).toEqual(items);
  expect(await session.getItems(2)).toEqual(items.slice(-2));
  expect(await session.getItems(0)).toEqual([]);
  expect(await session.getItems(50)).toEqual(items);
  const popped = await Promise.all([session.popItem(), session.popItem()]);
  expect(popped).toEqual([items[6], items[5]]);
  expect(await session.getItems()).toEqual(items.slice(0, 5));
  await session.clearSession();
  await session.clearSession();
  expect(await session.getItems()).toEqual([]);
  expect(await session.popItem()).toBeUndefined();
});

it("reads what another program stored as items, and takes the last part of a message", async () => {
  const session = newSession();
  await session.namespace.put([
    { role: "user", content: "What time is it?", session: session.sessionId },
    {
      role: "assistant",
      session: session.sessionId,
      content: [{ type: "text", text: "I look." }, { type: "tool_call", id: "c1", name: "clock", arguments: { zone: "UTC" } }],
    },
    { role: "tool", name: "clock", session: session.sessionId, content: [{ type: "tool_result", id: "c1", content: "12:00" }] },
  ]);
  const items = [user("What time is it?"), said("I look."), call, result];
  expect(await session.getItems()).toEqual(items);
  served.requests.length = 0;
  expect(await session.getItems(1)).toEqual([result]);
  expect(await session.getItems(2)).toEqual([call, result]);
  expect(served.requests.length).toBe(2);
  expect([await session.popItem(), await session.popItem()]).toEqual([result, call]);
  expect(await session.getItems()).toEqual(items.slice(0, 2));
});
