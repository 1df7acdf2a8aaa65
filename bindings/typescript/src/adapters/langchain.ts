/** LangChain.js on a memory: a vector store, a retriever of messages, and a history of a chat. Needs the package `@langchain/core`. */

import { BaseListChatMessageHistory } from "@langchain/core/chat_history";
import { Document } from "@langchain/core/documents";
import { Embeddings } from "@langchain/core/embeddings";
import {
  AIMessage, type BaseMessage, HumanMessage, mapStoredMessageToChatMessage, type StoredMessage, SystemMessage, ToolMessage,
} from "@langchain/core/messages";
import { BaseRetriever, type BaseRetrieverInput } from "@langchain/core/retrievers";
import { VectorStore } from "@langchain/core/vectorstores";

import type { Namespace } from "../client.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { argumentsOf, described, type Part, partsOf, type Role, textOf, type Turn, turnsOf } from "../messages.js";
import { embedded, keyOf, listed } from "../names.js";
import { newId } from "../transport.js";
import type { Filter, Message, MessageInput, RecallOptions } from "../types.js";

/** In a message's metadata: the message of LangChain. The Python package has it there too. */
const KEY = "langchain";
const ROLES: Record<string, Role> = { ai: "assistant", system: "system", tool: "tool" };

interface Stored {
  id: string;
  page_content: string;
  metadata: Record<string, unknown>;
}

/**
 * The documents of a namespace, found by meaning and by words; the Python package's `MnemonVectorStore` has the same ones.
 *
 * The server makes the vectors, so searches take texts, and vectors that are given are refused. `filter` is a filter on the metadata in the
 * server's language: `{ price: { $lt: 10 } }`. Scores are those of a recall: the higher the better, and not within limits.
 */
export class MnemonVectorStore extends VectorStore {
  declare FilterType: Filter;
  #pending = false;

  constructor(readonly namespace: Namespace) {
    super(new ServerEmbeddings({}), {});
  }

  override _vectorstoreType(): string {
    return "mnemon";
  }

  /** Stores documents in the place of those with the same ids, and returns the ids; one without gets a new one. Each is a commit. */
  override async addDocuments(documents: Document[], options: { ids?: string[] } = {}): Promise<string[]> {
    const ids = documents.map((document, at) => options.ids?.[at] ?? document.id ?? newId());
    this.#pending = true;
    await Promise.all(documents.map(async ({ pageContent, metadata }, at) => {
      const value: Stored = { id: ids[at]!, page_content: pageContent, metadata };
      await this.namespace.documents.put(await keyOf(value.id), value, { index: ["page_content"] });
    }));
    return ids;
  }

  override async addVectors(): Promise<never> {
    return refuse();
  }

  override async similaritySearchVectorWithScore(): Promise<never> {
    return refuse();
  }

  override async similaritySearch(query: string, k = 4, filter?: Filter): Promise<Document[]> {
    return (await this.similaritySearchWithScore(query, k, filter)).map(([document]) => document);
  }

  override async similaritySearchWithScore(query: string, k = 4, filter?: Filter): Promise<[Document, number][]> {
    if (this.#pending) await embedded(this.namespace.mnemon);
    this.#pending = false;
    // Documents of LangChain alone, where another program put others.
    const where = { page_content: { $exists: true }, ...(filter && { metadata: filter }) };
    const found = await this.namespace.documents.search<Stored>(query, { filter: where, limit: k });
    return found.map(({ value: { id, page_content, metadata }, score }) => [new Document({ id, pageContent: page_content, metadata }), score ?? 0]);
  }

  /** Deletes the documents with these ids, or all. Ids that no document has are ignored. */
  override async delete({ ids, deleteAll = false }: { ids?: string[]; deleteAll?: boolean } = {}): Promise<void> {
    if (!ids && !deleteAll) throw new InvalidArgumentError("delete takes { ids }, or { deleteAll: true }");
    const { documents, mnemon, name } = this.namespace;
    const keys = ids ? await Promise.all(ids.map((id) => keyOf(id))) : (await listed(mnemon, name, { page_content: { $exists: true } })).map(({ key }) => key);
    await Promise.all(keys.map((key) => documents.delete(key)));
  }
}

class ServerEmbeddings extends Embeddings {
  override embedQuery = refuse;
  override embedDocuments = refuse;
}

async function refuse(): Promise<never> {
  throw new InvalidArgumentError(
    "mnemon's server makes the vectors, and takes none: use addDocuments, similaritySearch and similaritySearchWithScore. " +
      "Another model is given to the server, by `mnemon serve --model`",
  );
}

/** The messages of a namespace that answer a question, as documents. Their metadata has the message's fields, and the score. */
export class MnemonRetriever extends BaseRetriever {
  override lc_namespace = ["mnemon", "retrievers"];
  readonly #namespace: Namespace;
  readonly #options: RecallOptions;

  constructor({ namespace, options = {}, ...fields }: BaseRetrieverInput & { namespace: Namespace; options?: RecallOptions }) {
    super(fields);
    this.#namespace = namespace;
    this.#options = options;
  }

  override async _getRelevantDocuments(query: string): Promise<Document[]> {
    const { hits } = await this.#namespace.recall(query, this.#options);
    return hits.map(({ id, session, role, name, created_at, metadata, score, content }) => {
      return new Document({ id, pageContent: textOf(partsOf(content)), metadata: { ...metadata, session, role, name, created_at, score } });
    });
  }
}

/**
 * The messages of a session, each as it was added. Recalls in the namespace find them, and the Python package's
 * `MnemonChatMessageHistory` has the same ones. What another program put into the session, or changed there, is read as messages of
 * LangChain, with media described; of several results of tools in a message, each is one.
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
      return { role, content: contentOf(message), session: this.session, name: message.name, metadata: { [KEY]: message.toDict() } };
    });
    if (rows.length > 0) await this.namespace.put(rows);
  }

  override async clear(): Promise<void> {
    await this.namespace.session(this.session).delete().catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
  }
}

/** What a recall reads of a message, and what a prompt has in its place. What has neither text nor calls is in the metadata. */
function contentOf(message: BaseMessage): Part[] {
  if (ToolMessage.isInstance(message)) return [{ type: "tool_result", id: message.tool_call_id, content: message.text }];
  const calls = AIMessage.isInstance(message) ? (message.tool_calls ?? []) : [];
  const parts: Part[] = message.text.trim() === "" ? [] : [{ type: "text", text: message.text }];
  parts.push(...calls.map(({ id = "", name, args }) => ({ type: "tool_call" as const, id, name, arguments: args })));
  return parts.length > 0 ? parts : [{ type: "text", text: `(${message.type})` }];
}

/** The message that a history stored, or those that a message of another program is. */
function messagesOf(row: Message): BaseMessage[] {
  try {
    const { type, data } = row.metadata?.[KEY] as StoredMessage;
    // Python has null where nothing is.
    const given = Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null));
    const message = mapStoredMessageToChatMessage({ type, data: given as unknown as StoredMessage["data"] });
    if (textOf(contentOf(message)) === textOf(partsOf(row.content))) return [message];
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
