/** A session as LangChain's history of messages. */

import { BaseListChatMessageHistory } from "@langchain/core/chat_history";
import {
  AIMessage, type BaseMessage, HumanMessage, mapStoredMessageToChatMessage, type StoredMessage, SystemMessage, ToolMessage,
} from "@langchain/core/messages";

import type { Namespace } from "../client.js";
import { argumentsOf, described, fitting, isUnchanged, type Part, type Role, type Turn, turnsOf } from "../messages.js";
import type { Message, MessageInput } from "../types.js";

/** In a message's metadata: the message of LangChain. The Python package has it there too. */
const KEY = "langchain";
const ROLES: Record<string, Role> = { ai: "assistant", system: "system", tool: "tool" };

/**
 * The messages of a session, each as it was added. Recalls in the namespace find them, and the Python package's
 * `MnemonChatMessageHistory` has the same ones. What another program put into the session, or changed there, is read as messages of
 * LangChain, with media described; of several results of tools in a message, each is one. A message has at most 16 MiB as JSON;
 * recalls find one of more than 1 MiB of text by its beginning.
 */
export class MnemonChatMessageHistory extends BaseListChatMessageHistory {
  override lc_namespace = ["mnemon", "chat_history"];

  constructor(readonly namespace: Namespace, readonly session: string) {
    super();
  }

  override async getMessages(): Promise<BaseMessage[]> {
    return (await this.namespace.session(this.session).history({ limit: 1000 }).toArray()).flatMap(messagesOf);
  }

  override async addMessage(message: BaseMessage): Promise<void> {
    await this.addMessages([message]);
  }

  /** Stores messages in one commit. */
  override async addMessages(messages: BaseMessage[]): Promise<void> {
    const rows = messages.map((message): MessageInput => {
      const role = ROLES[message.type] ?? "user";
      return { role, content: fitting(partsIn(message)), session: this.session, name: message.name, metadata: { [KEY]: message.toDict() } };
    });
    if (rows.length > 0) await this.namespace.put(rows);
  }

  override async clear(): Promise<void> {
    await this.namespace.mnemon.batch([{ op: "delete_session", namespace: this.namespace.name, session: this.session }]);
  }
}

/** What a recall reads of a message, and what a prompt has in its place. What has neither text nor calls is in the metadata. */
function partsIn(message: BaseMessage): Part[] {
  if (ToolMessage.isInstance(message)) return [{ type: "tool_result", id: message.tool_call_id, content: message.text }];
  const calls = AIMessage.isInstance(message) ? (message.tool_calls ?? []) : [];
  const parts = calls.map(({ id = "", name, args }) => ({ type: "tool_call" as const, id, name, arguments: args }));
  return [{ type: "text", text: message.text }, ...parts];
}

/** The message that a history stored, or those that a message of another program is. */
function messagesOf(row: Message): BaseMessage[] {
  try {
    const { type, data } = row.metadata?.[KEY] as StoredMessage;
    // Python has null where nothing is.
    const given = Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null));
    const message = mapStoredMessageToChatMessage({ type, data: given as unknown as StoredMessage["data"] });
    if (isUnchanged(row, partsIn(message))) return [message];
  } catch {
    // Another program's.
  }
  const turns = turnsOf(row);
  return turns.map((turn) => messageOf(turn, turn.role === row.role ? (row.name ?? undefined) : undefined, turns.length === 1 ? row.id : undefined));
}

function messageOf({ role, parts }: Turn, name: string | undefined, id: string | undefined): BaseMessage {
  const [first] = parts;
  if (first?.type === "tool_result") return new ToolMessage({ content: first.content, tool_call_id: first.id, name, id });
  const content = parts.filter((part) => part.type !== "tool_call").map(described).join("\n");
  if (role !== "assistant") return new (role === "system" ? SystemMessage : HumanMessage)({ content, name, id });
  const calls = parts.filter((part) => part.type === "tool_call").map((part) => ({ id: part.id, name: part.name, args: argumentsOf(part) }));
  return new AIMessage({
    content,
    name,
    id,
    tool_calls: calls.flatMap(({ args, ...call }) => (typeof args === "string" ? [] : [{ ...call, args, type: "tool_call" as const }])),
    invalid_tool_calls: calls.flatMap(({ args, ...call }) => (typeof args === "string" ? [{ ...call, args, type: "invalid_tool_call" as const }] : [])),
  });
}
