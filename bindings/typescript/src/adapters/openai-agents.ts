/** Sessions of OpenAI's Agents SDK on a memory. Needs the package `@openai/agents`, or `@openai/agents-core` alone. */

import type { AgentInputItem, Session } from "@openai/agents-core";

import type { Namespace } from "../client.js";
import { argumentsOf, argumentText, described, fitting, isUnchanged, type Part, partsOf, type Role, turnsOf } from "../messages.js";
import { jsonOf } from "../serializers.js";
import type { Message, MessageInput } from "../types.js";

/** In a message's metadata: the item as JSON. The Python SDK has other items, which are under `openai_agents`. */
const KEY = "openai_agents_js";

/** The fields of items that are read here. */
interface Item {
  type?: string;
  role?: string;
  callId?: string;
  name?: string;
  arguments?: unknown;
  content?: unknown;
  output?: unknown;
}

/**
 * A session, as a session of a namespace: `run(agent, input, { session: new MnemonSession(mnemon.namespace("users/ada"), "7") })`.
 *
 * Each item is a message, which recalls in the namespace find by its text, and is kept whole: calls of tools, their outputs and reasoning,
 * too. What another program put into the session, the Python SDK too, or changed there, is read as items: a message, and each call and each
 * output. Changes by one object take turns. An item has at most 16 MiB as JSON; recalls find one of more than 1 MiB of text by its beginning.
 */
export class MnemonSession implements Session {
  #last: Promise<unknown> = Promise.resolve();

  constructor(readonly namespace: Namespace, readonly sessionId: string) {}

  async getSessionId(): Promise<string> {
    return this.sessionId;
  }

  /** Returns the last `limit` items, in order. Cost: reads as many messages of the session; without a limit, all. */
  async getItems(limit = Infinity): Promise<AgentInputItem[]> {
    await this.#last;
    const session = this.namespace.session(this.sessionId);
    const messages = await (limit < Infinity ? session.last(limit) : session.history({ limit: 1000 }).toArray());
    const items = messages.flatMap((message) => itemsOf(message).map(([item]) => item));
    return limit > 0 ? items.slice(-limit) : [];
  }

  /** Stores items at the end, in one commit. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    const messages = items.map((item): MessageInput => {
      return { role: roleOf(item as Item), content: fitting(partsIn(item as Item)), session: this.sessionId, metadata: { [KEY]: jsonOf(item) } };
    });
    if (messages.length > 0) await this.#inTurn(() => this.namespace.put(messages));
  }

  /** Deletes the last item and returns it; of a message of several items, that part. */
  async popItem(): Promise<AgentInputItem | undefined> {
    return this.#inTurn(async () => {
      const [last] = await this.namespace.session(this.sessionId).last(1);
      const items = last ? itemsOf(last) : [];
      const popped = items.pop();
      if (!last || !popped) return undefined;
      if (items.length > 0) await this.namespace.put({ ...last, content: items.flatMap(([, parts]) => parts) });
      else await this.namespace.delete(last.id);
      return popped[0];
    });
  }

  async clearSession(): Promise<void> {
    const { mnemon, name: namespace } = this.namespace;
    await this.#inTurn(() => mnemon.batch([{ op: "delete_session", namespace, session: this.sessionId }]));
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const changed = this.#last.then(change);
    this.#last = changed.catch(() => {});
    return changed;
  }
}

/** The items of a message, each with its parts. */
function itemsOf(message: Message): [AgentInputItem, Part[]][] {
  const stored = storedIn(message);
  if (stored) return [[stored, partsOf(message.content)]];
  return turnsOf(message).flatMap(({ role, parts }): [AgentInputItem, Part[]][] => {
    const said = parts.filter((part) => part.type !== "tool_call" && part.type !== "tool_result");
    const items: [AgentInputItem, Part[]][] = [];
    if (said.length > 0 || parts.length === 0) items.push([saidAs(role, said.map(described).join("\n")), said]);
    for (const part of parts) {
      if (part.type === "tool_call") {
        items.push([{ type: "function_call", callId: part.id, name: part.name, arguments: argumentText(part), status: "completed" }, [part]]);
      } else if (part.type === "tool_result") {
        const output = { type: "text" as const, text: part.content };
        items.push([{ type: "function_call_result", callId: part.id, name: message.name ?? "", output, status: "completed" }, [part]]);
      }
    }
    return items;
  });
}

/** The item that a session stored; undefined if another program stored the message, or changed its text since. */
function storedIn(message: Message): AgentInputItem | undefined {
  try {
    const item = JSON.parse(message.metadata?.[KEY] as string) as AgentInputItem;
    return isUnchanged(message, partsIn(item as Item)) ? item : undefined;
  } catch {
    return undefined;
  }
}

function saidAs(role: Role, text: string): AgentInputItem {
  if (role === "assistant") return { type: "message", role, status: "completed", content: [{ type: "output_text", text }] };
  return { type: "message", role: role === "system" ? role : "user", content: text };
}

/** The role of a message; of what is none, the one that makes it. */
function roleOf({ type, role }: Item): Role {
  if (/_(result|output)$/.test(type ?? "")) return "tool";
  return role === "user" || role === "system" ? role : "assistant";
}

/** What a recall reads of an item, and what a prompt has in its place. What has no text is in the metadata alone. */
function partsIn(item: Item): Part[] {
  const { type = "message", callId: id, name = type } = item;
  const text = [...textsOf(item.content), ...textsOf(item.output)].join("\n");
  if (id !== undefined && roleOf(item) !== "tool") {
    const call = { type: "tool_call" as const, id, name };
    return [{ ...call, arguments: argumentsOf({ ...call, arguments: item.arguments }) }];
  }
  if (id !== undefined && text !== "") return [{ type: "tool_result", id, content: text }];
  return [{ type: "text", text }];
}

function textsOf(content: unknown): string[] {
  if (typeof content === "string") return [content];
  if (typeof content !== "object" || content === null) return [];
  return [content].flat().flatMap((part: { text?: unknown } | null) => (typeof part?.text === "string" ? [part.text] : []));
}
