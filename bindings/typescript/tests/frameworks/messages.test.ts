/** Messages that are too long for a content, and those that say nothing, in each adapter that keeps a framework's messages whole. */

import { AIMessage, HumanMessage, mapStoredMessageToChatMessage, type StoredMessage, ToolMessage } from "@langchain/core/messages";
import type { MastraDBMessage } from "@mastra/core/memory";
import type { AgentInputItem } from "@openai/agents";
import type { Message, Namespace } from "mnemon-engine";
import { MnemonChatMessageHistory } from "mnemon-engine/langchain";
import { MnemonMemory } from "mnemon-engine/mastra";
import { MnemonSession } from "mnemon-engine/openai-agents";
import { describe, expect, it } from "vitest";

import { serve } from "./serve.js";

const served = serve();
let names = 0;

// A single text of this length is cut within an emoji of four bytes, as is one of half the length.
const LONG = `Ada rows on Thursdays. ${"\u{1f6a3}".repeat(2 ** 19)}`;
const IMAGE = `data:image/png;base64,${"A".repeat(4_000_000)}`;

interface Adapter {
  /** Its messages as JSON: a long text, other long ones, an image, and two without text or image. */
  messages: { long: object; others: object[]; image: object; silent: object[] };
  /** What it stored before for the first that is silent. */
  placeholder: string;
  add(namespace: Namespace, message: object): Promise<unknown>;
  read(namespace: Namespace): Promise<object[]>;
}

function item(content: object[]): AgentInputItem {
  return { type: "message", role: "user", content } as AgentInputItem;
}

function mastra(id: string, ...parts: object[]): MastraDBMessage {
  const content = { format: 2, parts } as MastraDBMessage["content"];
  return { id, role: "user", createdAt: new Date(names * 1000), threadId: "s", resourceId: "ada", type: "v2", content };
}

const ADAPTERS: Record<string, Adapter> = {
  MnemonSession: {
    messages: {
      long: item([{ type: "input_text", text: LONG }]),
      others: [
        { type: "function_call", callId: "c", name: "write", arguments: JSON.stringify({ text: LONG }), status: "completed" },
        { type: "function_call_result", callId: "c", name: "write", output: { type: "text", text: LONG }, status: "completed" },
      ],
      image: item([{ type: "input_text", text: "A boat" }, { type: "input_image", image: IMAGE }]),
      silent: [{ type: "reasoning", id: "r", content: [] }, item([{ type: "input_text", text: " " }])],
    },
    placeholder: "(reasoning)",
    add: (namespace, message) => new MnemonSession(namespace, "s").addItems([message as AgentInputItem]),
    read: (namespace) => new MnemonSession(namespace, "s").getItems(),
  },
  MnemonChatMessageHistory: {
    messages: {
      long: new HumanMessage(LONG).toDict(),
      others: [
        new AIMessage({ content: LONG, tool_calls: [{ id: "c", name: "write", args: { text: LONG }, type: "tool_call" }] }).toDict(),
        new ToolMessage({ content: LONG, tool_call_id: "c" }).toDict(),
      ],
      image: new HumanMessage({ content: [{ type: "text", text: "A boat" }, { type: "image_url", image_url: { url: IMAGE } }] }).toDict(),
      // The first MiB of the last is blank.
      silent: [new HumanMessage("").toDict(), new AIMessage(" ").toDict(), new HumanMessage(`${" ".repeat(2 ** 20)}Late.`).toDict()],
    },
    placeholder: "(human)",
    add: (namespace, message) => new MnemonChatMessageHistory(namespace, "s").addMessage(mapStoredMessageToChatMessage(message as StoredMessage)),
    read: async (namespace) => (await new MnemonChatMessageHistory(namespace, "s").getMessages()).map((message) => message.toDict()),
  },
  MnemonMemory: {
    messages: {
      long: mastra("1", { type: "text", text: LONG }),
      others: [mastra("2", { type: "text", text: LONG }, { type: "reasoning", reasoning: LONG })],
      image: mastra("3", { type: "text", text: "A boat" }, { type: "file", mimeType: "image/png", data: IMAGE }),
      silent: [mastra("4", { type: "step-start" }), mastra("5", { type: "text", text: " " })],
    },
    placeholder: "(step-start)",
    add: (namespace, message) => new MnemonMemory(namespace).saveMessages({ messages: [message as MastraDBMessage] }),
    read: async (namespace) => (await new MnemonMemory(namespace).listMessages({ threadId: "s", perPage: false })).messages,
  },
};

describe.each(Object.entries(ADAPTERS))("%s", (_, { messages, placeholder, add, read }) => {
  const { long, others, image, silent } = messages;
  const newNamespace = () => served.mnemon.namespace(`messages/${names++}`);
  const stored = (namespace: Namespace): Promise<Message[]> => namespace.session("s").history().toArray();

  it("keeps long messages whole, and recalls find them by their beginning", async () => {
    const namespace = newNamespace();
    await add(namespace, long);
    await namespace.put({ role: "user", content: "Bo bakes bread.", session: "other" });
    const { hits } = await namespace.recall("Who rows on Thursdays?", { k: 1 });
    const [{ content } = { content: "" }] = hits;
    expect(typeof content === "string" && LONG.startsWith(content) && new TextEncoder().encode(content).length).toBeGreaterThan(2 ** 20 - 4);
    for (const message of [...others, image]) await add(namespace, message);
    expect(await read(namespace)).toEqual([long, ...others, image]);
  });

  it("stores what says nothing so that no recall finds it", async () => {
    const namespace = newNamespace();
    for (const message of silent) await add(namespace, message);
    expect((await stored(namespace)).map(({ content }) => content)).toEqual(silent.map(() => []));
    expect((await namespace.recall(`Who says ${placeholder}?`, { k: 9 })).hits).toEqual([]);
    expect(await read(namespace)).toEqual(silent);
  });

  it("reads what was stored with a placeholder", async () => {
    const namespace = newNamespace();
    await add(namespace, silent[0]!);
    const [message] = await stored(namespace);
    await namespace.put({ ...message!, content: placeholder });
    expect(await read(namespace)).toEqual([silent[0]]);
  });
});

it("a text that another program changed is read in its place, also of a long message", async () => {
  for (const name of ["MnemonSession", "MnemonChatMessageHistory"]) {
    const { messages: { long, silent }, add, read } = ADAPTERS[name]!;
    for (const message of [long, silent[0]!]) {
      const namespace = served.mnemon.namespace(`messages/${names++}`);
      await add(namespace, message);
      const [stored] = await namespace.session("s").last(1);
      await namespace.put({ ...stored!, content: "Ada sings." });
      expect(JSON.stringify(await read(namespace))).toMatch(/^[^\u{1f6a3}]*Ada sings\.[^\u{1f6a3}]*$/u);
    }
  }
});
