/** Mastra's memory storage on a memory: threads, their messages, and working memory of resources. Needs the package `@mastra/core`. */

import type { MastraDBMessage, StorageThreadType } from "@mastra/core/memory";
import { InMemoryStore, MemoryStorage, type StorageListMessagesInput, type StorageResourceType } from "@mastra/core/storage";

import type { Documents, Namespace } from "../client.js";
import { DocumentChangedError, InvalidConfigError, NotFoundError } from "../errors.js";
import { fitting, partsOf, textOf } from "../messages.js";
import { listed } from "../names.js";
import type { BatchOperation, Message, MessageInput } from "../types.js";

/** What a method is given. */
type Given<Method extends keyof MemoryStorage> = MemoryStorage[Method] extends (given: infer Fields) => unknown ? Fields : never;
type ListOptions = Omit<StorageListMessagesInput, "threadId">;

/**
 * The memory domain of a Mastra store: `new MastraCompositeStore({ id: "mnemon", default: other, domains: { memory: new MnemonMemory(namespace) } })`.
 *
 * A message is a message of the namespace, whose session is its thread: recalls find it by its text. Threads and resources are documents
 * of `NAME/threads` and `NAME/resources` under their ids. A change is one commit, with the times of its threads. Lists are those that Mastra's
 * store in memory makes of what is stored. They read their threads whole, but for the last messages that were put, as agents ask for them:
 * newest first, without a total and a filter. A message has at most 16 MiB as JSON; recalls find one of more than 1 MiB of text
 * by its beginning. A message that is saved with an id of another thread moves to the thread that it is saved for, as in Mastra's own stores: a
 * page that branches a conversation gives its messages new ids. There is no observational memory, and no retention by age (`prune`): both are refused with an error.
 */
export class MnemonMemory extends MemoryStorage {
  override readonly supportsPartialThreadUpdate = true;
  readonly #threads: Documents;
  readonly #resources: Documents;

  constructor(readonly namespace: Namespace) {
    super();
    this.#threads = namespace.namespace("threads").documents;
    this.#resources = namespace.namespace("resources").documents;
  }

  override async dangerouslyClearAll() {
    await this.namespace.deleteNamespace({ below: true });
  }

  override async getThreadById({ threadId, resourceId }: Given<"getThreadById">) {
    const thread = (await this.#threads.get<StorageThreadType>(threadId))?.value;
    return thread && (resourceId === undefined || thread.resourceId === resourceId) ? dated(thread) : null;
  }

  override async saveThread({ thread }: Given<"saveThread">) {
    await this.#threads.put(thread.id, thread, { index: [] });
    return thread;
  }

  override async updateThread({ id, title, metadata }: Given<"updateThread">) {
    const [thread] = await this.#change([], [id], (old) => ({ ...old, title: title ?? old.title, metadata: { ...old.metadata, ...metadata } }));
    if (!thread) throw new NotFoundError(`there is no thread ${JSON.stringify(id)}`);
    return thread;
  }

  override async deleteThread({ threadId }: Given<"deleteThread">) {
    const { mnemon, name: namespace } = this.namespace;
    const thread = { namespace: this.#threads.namespace, key: threadId };
    await mnemon.batch([{ op: "delete_session", namespace, session: threadId }, { op: "delete", ...thread }]);
  }

  override async listThreads(options: Given<"listThreads">) {
    const { resourceId } = options.filter ?? {};
    const found = await listed<StorageThreadType>(this.namespace.mnemon, this.#threads.namespace, resourceId ? { resourceId } : {});
    return (await inMemory(found.map(({ value }) => dated(value)), [])).listThreads(options);
  }

  override async listMessages(options: StorageListMessagesInput) {
    return (await this.#read([options.threadId].flat(), options)).listMessages(options);
  }

  /** Lists the messages of a resource in the threads of this resource. */
  override async listMessagesByResourceId(options: Given<"listMessagesByResourceId">) {
    const { threads } = await this.listThreads({ perPage: false, filter: { resourceId: options.resourceId } });
    return (await this.#read(threads.map(({ id }) => id), options)).listMessagesByResourceId(options);
  }

  override async listMessagesById({ messageIds }: Given<"listMessagesById">) {
    const found = await Promise.all([...new Set(messageIds)].map((id) => this.namespace.get(id)));
    const messages = found.flatMap((message) => (message ? [messageOf(message)] : []));
    return { messages: messages.sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime()) };
  }

  override async saveMessages({ messages }: Given<"saveMessages">) {
    await this.#change([this.#put(messages)], messages.map(({ threadId }) => threadId));
    return { messages };
  }

  override async updateMessages({ messages }: Given<"updateMessages">) {
    const found = (await this.listMessagesById({ messageIds: messages.map(({ id }) => id) })).messages;
    const updated = found.map((message): MastraDBMessage => {
      const { content, ...fields } = messages.find(({ id }) => id === message.id) ?? {};
      const metadata = (message.content.metadata || content?.metadata) && { metadata: { ...message.content.metadata, ...content?.metadata } };
      return { ...message, ...fields, content: { ...message.content, ...content, ...metadata } };
    });
    await this.#change([this.#put(updated)], [...found, ...updated].map(({ threadId }) => threadId));
    return updated;
  }

  override async deleteMessages(ids: string[]) {
    const { messages } = await this.listMessagesById({ messageIds: ids });
    await this.#change([{ op: "delete_messages", namespace: this.namespace.name, ids }], messages.map(({ threadId }) => threadId));
  }

  override async copyThread(options: Given<"copyThread">) {
    const { sourceThreadId, newThreadId = "" } = options;
    const memory = await this.#read([sourceThreadId], {});
    for (const id of [sourceThreadId, newThreadId]) {
      const thread = id && (await this.getThreadById({ threadId: id }));
      if (thread) await memory.saveThread({ thread });
    }
    const copy = await memory.copyThread(options);
    const { messages } = await memory.listMessages({ threadId: copy.thread.id, perPage: false });
    await this.namespace.mnemon.batch([...replaced(this.#threads, null, copy.thread), this.#put(messages)]);
    return copy;
  }

  override async getResourceById({ resourceId }: Given<"getResourceById">) {
    const resource = (await this.#resources.get<StorageResourceType>(resourceId))?.value;
    return resource ? dated(resource) : null;
  }

  override async saveResource({ resource }: Given<"saveResource">) {
    await this.#resources.put(resource.id, resource, { index: [] });
    return resource;
  }

  override async updateResource({ resourceId: id, workingMemory, metadata }: Given<"updateResource">): Promise<StorageResourceType> {
    return untilUnchanged(async () => {
      const now = new Date();
      const stored = (await this.#resources.get<StorageResourceType>(id))?.value ?? null;
      const old: StorageResourceType = stored ? dated(stored) : { id, createdAt: now, updatedAt: now };
      const changed = { workingMemory: workingMemory ?? old.workingMemory, metadata: { ...old.metadata, ...metadata }, updatedAt: now };
      const resource = { ...old, ...changed };
      await this.namespace.mnemon.batch(replaced(this.#resources, stored, resource));
      return resource;
    });
  }

  /** Refuses to delete by age: Mastra's own class would delete nothing, and not say so. */
  override async prune(policies: Parameters<MemoryStorage["prune"]>[0], _options?: Parameters<MemoryStorage["prune"]>[1]) {
    const tables = Object.keys(policies);
    if (tables.length === 0) return [];
    throw new InvalidConfigError(
      `MnemonMemory deletes nothing by age, and there is a retention policy for ${tables.join(", ")}; leave it out, and give the messages a ` +
        "time to live with namespace.setTtl(minutes)",
    );
  }

  /** The messages that a list is made of. The last ones suffice for the newest, if they are all of the resource. */
  async #read(threads: string[], options: ListOptions) {
    const { resourceId, page = 0, perPage = 40, orderBy, filter, include = [], includeTotal } = options;
    const isNewest = includeTotal === false && perPage !== false && orderBy?.direction === "DESC" && !filter && include.length === 0;
    const included = await Promise.all(include.map(({ id }) => this.namespace.get(id)));
    const sessions = new Set([...threads, ...included.flatMap((message) => message?.session ?? [])]);
    const read = [...sessions].map(async (thread) => {
      const session = this.namespace.session(thread);
      const last = isNewest ? (await session.last((page + 1) * perPage + 1)).map(messageOf) : undefined;
      if (last?.every((message) => !resourceId || message.resourceId === resourceId)) return last;
      return (await session.history({ limit: 1000 }).toArray()).map(messageOf);
    });
    return inMemory([], (await Promise.all(read)).flat());
  }

  #put(messages: MastraDBMessage[]): BatchOperation {
    return { op: "put_messages", namespace: this.namespace.name, messages: messages.map(inputOf) };
  }

  /** Makes changes and those of threads in one commit. */
  async #change(changes: BatchOperation[], ids: (string | undefined)[], change = same): Promise<StorageThreadType[]> {
    const { mnemon } = this.namespace;
    const keys = [...new Set(ids)].filter((id) => id !== undefined);
    return untilUnchanged(async () => {
      const read = await mnemon.batch(keys.map((key) => ({ op: "get", namespace: this.#threads.namespace, key }) as const));
      const old = read.flatMap(({ document }) => (document ? [document.value as StorageThreadType] : []));
      const later = ({ updatedAt }: StorageThreadType) => new Date(Math.max(Date.now(), updatedAt.getTime() + 1));
      const changed = old.map(dated).map((thread) => ({ ...change(thread), updatedAt: later(thread) }));
      await mnemon.batch([...changes, ...changed.flatMap((thread, at) => replaced(this.#threads, old[at]!, thread))]);
      return changed;
    });
  }
}

/** Puts a document in the place of what was read. */
function replaced<T extends { id: string }>({ namespace }: Documents, old: T | null, value: T): BatchOperation[] {
  const place = { namespace, key: value.id };
  return [{ op: "expect", ...place, value: old }, { op: "put", ...place, value, index: [] }];
}

/** Reads and changes documents, and does so again if another program changed one of them in between. */
async function untilUnchanged<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DocumentChangedError)) throw error;
    }
  }
}

/** Mastra's store in memory, with copies of threads and messages. It takes messages one by one: the time of several grows by the square. */
async function inMemory(threads: StorageThreadType[], messages: MastraDBMessage[]): Promise<MemoryStorage> {
  const memory = await new InMemoryStore().getStore("memory");
  if (!memory) throw new NotFoundError("this version of @mastra/core has no memory in its InMemoryStore");
  for (const message of messages) await memory.saveMessages({ messages: [message] });
  for (const thread of threads) await memory.saveThread({ thread });
  return memory;
}

function inputOf(message: MastraDBMessage): MessageInput {
  const { id, role, threadId, createdAt, content: { parts } } = message;
  const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
  return {
    id,
    role: role === "user" || role === "assistant" ? role : "system",
    session: threadId,
    created_at: new Date(createdAt).toISOString(),
    content: fitting([{ type: "text", text }]),
    metadata: { mastra: message },
  };
}

/** The message of Mastra, or what another program stored as one. */
function messageOf({ id, role, session, created_at, content, metadata }: Message): MastraDBMessage {
  const createdAt = new Date(created_at ?? 0);
  const parts = [{ type: "text" as const, text: textOf(partsOf(content)) }];
  const other = { role: role === "tool" ? "assistant" : role, threadId: session, content: { format: 2, parts } } as const;
  const { resourceId, ...kept } = (metadata?.["mastra"] as MastraDBMessage | undefined) ?? { ...other, resourceId: undefined };
  return { ...kept, ...(resourceId && { resourceId }), id, createdAt };
}

const same = (thread: StorageThreadType): StorageThreadType => thread;

function dated<T extends { createdAt: Date; updatedAt: Date }>(value: T): T {
  return { ...value, createdAt: new Date(value.createdAt), updatedAt: new Date(value.updatedAt) };
}
