/** Mastra's memory storage on a memory: threads, their messages, and working memory of resources. Needs the package `@mastra/core`. */

import type { MastraDBMessage, StorageThreadType } from "@mastra/core/memory";
import {
  calculatePagination, filterByDateRange, MemoryStorage, normalizePerPage, type StorageCloneThreadInput, type StorageCopyThreadOutput,
  type StorageListMessagesByResourceIdInput, type StorageListMessagesInput, type StorageListMessagesOutput, type StorageListThreadsInput,
  type StorageListThreadsOutput, storageMessageMatchesMetadataFilter, type StorageResourceType, validateStorageMetadataFilter,
} from "@mastra/core/storage";

import type { Documents, Namespace } from "../client.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { keyOf, listed } from "../names.js";
import { newId } from "../transport.js";
import type { Filter, Message, MessageInput } from "../types.js";

type ListOptions = Omit<StorageListMessagesInput, "threadId">;
type MessageUpdate = Parameters<MemoryStorage["updateMessages"]>[0]["messages"][number];
/** What a message's metadata has under `mastra`. */
type Kept = Pick<MastraDBMessage, "role" | "type" | "threadId" | "resourceId" | "content">;

/**
 * The memory domain of a Mastra store: `new MastraCompositeStore({ id: "mnemon", default: other, domains: { memory: new MnemonMemory(namespace) } })`.
 *
 * A message is a message of the namespace, whose session is its thread: recalls find it by its text. Threads and resources are documents
 * of `NAME/threads` and `NAME/resources`. Lists read the sessions of their threads whole. Of a change of several messages each commit has
 * all of them, and the time of the thread is another commit. There is no observational memory.
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

  override async dangerouslyClearAll(): Promise<void> {
    await this.namespace.deleteNamespace({ below: true });
  }

  override async getThreadById({ threadId, resourceId }: { threadId: string; resourceId?: string }): Promise<StorageThreadType | null> {
    const thread = (await this.#threads.get<StorageThreadType>(await keyOf(threadId)))?.value;
    return thread && (resourceId === undefined || thread.resourceId === resourceId) ? dated(thread) : null;
  }

  override async saveThread({ thread }: { thread: StorageThreadType }): Promise<StorageThreadType> {
    await this.#threads.put(await keyOf(thread.id), thread, { index: [] });
    return thread;
  }

  override async updateThread({ id, title, metadata }: { id: string; title?: string; metadata?: Record<string, unknown> }): Promise<StorageThreadType> {
    const thread = await this.getThreadById({ threadId: id });
    if (!thread) throw new NotFoundError(`there is no thread ${JSON.stringify(id)}`);
    return this.saveThread({ thread: { ...thread, title: title ?? thread.title, metadata: { ...thread.metadata, ...metadata }, updatedAt: new Date() } });
  }

  override async deleteThread({ threadId }: { threadId: string }): Promise<void> {
    await this.namespace.session(threadId).delete().catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
    await this.#threads.delete(await keyOf(threadId));
  }

  override async listThreads({ page = 0, perPage: given, orderBy, filter }: StorageListThreadsInput): Promise<StorageListThreadsOutput> {
    this.validatePaginationInput(page, given ?? 100);
    this.validateMetadataKeys(filter?.metadata);
    const { field, direction } = this.parseOrderBy(orderBy);
    const { offset, perPage } = calculatePagination(page, given, normalizePerPage(given, 100));
    const metadata = Object.entries(filter?.metadata ?? {}).map(([key, value]) => [key, { $eq: value }]);
    const where: Filter = { ...(filter?.resourceId && { resourceId: filter.resourceId }), ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }) };
    const found = await listed<StorageThreadType>(this.namespace.mnemon, this.#threads.namespace, where);
    const threads = found.map(({ value }) => dated(value)).sort((a, b) => (direction === "ASC" ? 1 : -1) * (a[field].getTime() - b[field].getTime()));
    const end = perPage === false ? threads.length : offset + perPage;
    return { threads: threads.slice(offset, end), total: threads.length, page, perPage, hasMore: end < threads.length };
  }

  override async listMessages({ threadId, ...options }: StorageListMessagesInput): Promise<StorageListMessagesOutput> {
    const threads = [threadId].flat();
    if (threads.length === 0 || threads.some((id) => id.trim() === "")) throw new InvalidArgumentError("listMessages needs a threadId, or several, that are not blank");
    return this.#list(threads, options);
  }

  /** Lists the messages of a resource in the threads of this resource. */
  override async listMessagesByResourceId(options: StorageListMessagesByResourceIdInput): Promise<StorageListMessagesOutput> {
    const { threads } = await this.listThreads({ perPage: false, filter: { resourceId: options.resourceId } });
    return this.#list(threads.map(({ id }) => id), options);
  }

  override async listMessagesById({ messageIds }: { messageIds: string[] }): Promise<{ messages: MastraDBMessage[] }> {
    const found = await Promise.all(messageIds.map((id) => this.namespace.get(id)));
    return { messages: byTime(found.flatMap((message) => (message ? messageOf(message) : []))) };
  }

  override async saveMessages({ messages }: { messages: MastraDBMessage[] }): Promise<{ messages: MastraDBMessage[] }> {
    if (messages.length > 0) await this.namespace.put(messages.map(inputOf));
    await this.#touch(messages.map(({ threadId }) => threadId));
    return { messages };
  }

  override async updateMessages({ messages }: { messages: MessageUpdate[] }): Promise<MastraDBMessage[]> {
    const found = (await this.listMessagesById({ messageIds: messages.map(({ id }) => id) })).messages;
    const updated = found.map((message): MastraDBMessage => {
      const { content, ...fields } = messages.find(({ id }) => id === message.id) ?? {};
      const metadata = (message.content.metadata || content?.metadata) && { metadata: { ...message.content.metadata, ...content?.metadata } };
      return { ...message, ...fields, content: { ...message.content, ...content, ...metadata } };
    });
    await this.saveMessages({ messages: updated });
    await this.#touch(found.map(({ threadId }) => threadId));
    return updated;
  }

  override async deleteMessages(messageIds: string[]): Promise<void> {
    const { messages } = await this.listMessagesById({ messageIds });
    await this.namespace.delete(messageIds);
    await this.#touch(messages.map(({ threadId }) => threadId));
  }

  override async copyThread({ sourceThreadId, newThreadId = newId(), resourceId, title, metadata, options = {} }: StorageCloneThreadInput): Promise<StorageCopyThreadOutput> {
    const source = await this.getThreadById({ threadId: sourceThreadId });
    if (!source) throw new NotFoundError(`there is no thread ${JSON.stringify(sourceThreadId)}`);
    if (await this.getThreadById({ threadId: newThreadId })) throw new InvalidArgumentError(`the thread ${JSON.stringify(newThreadId)} exists`);
    const { startDate: start, endDate: end, messageIds } = options.messageFilter ?? {};
    const { messages } = await this.#list([sourceThreadId], { perPage: false, filter: { dateRange: { start, end } } });
    const copied = messages.filter(({ id }) => !messageIds?.length || messageIds.includes(id)).slice(-(options.messageLimit || Infinity));
    const [now, lastMessageId, owner] = [new Date(), copied.at(-1)?.id, resourceId ?? source.resourceId];
    const clone = { sourceThreadId, clonedAt: now, ...(lastMessageId && { lastMessageId }) };
    const named = title ?? (source.title && `Clone of ${source.title}`);
    const copies = copied.map((message) => ({ ...message, id: newId(), threadId: newThreadId, resourceId: owner }));
    if (copies.length > 0) await this.namespace.put(copies.map(inputOf));
    const thread = await this.saveThread({ thread: { id: newThreadId, resourceId: owner, title: named, metadata: { ...metadata, clone }, createdAt: now, updatedAt: now } });
    return { thread, messageIdMap: Object.fromEntries(copied.map(({ id }, at) => [id, copies[at]!.id])) };
  }

  override async getResourceById({ resourceId }: { resourceId: string }): Promise<StorageResourceType | null> {
    const found = await this.#resources.get<StorageResourceType>(await keyOf(resourceId));
    return found && dated(found.value);
  }

  override async saveResource({ resource }: { resource: StorageResourceType }): Promise<StorageResourceType> {
    await this.#resources.put(await keyOf(resource.id), resource, { index: [] });
    return resource;
  }

  override async updateResource({ resourceId: id, workingMemory, metadata }: { resourceId: string; workingMemory?: string; metadata?: Record<string, unknown> }): Promise<StorageResourceType> {
    const now = new Date();
    const old = (await this.getResourceById({ resourceId: id })) ?? { id, createdAt: now };
    const known = "metadata" in old ? old : { ...old, workingMemory: undefined, metadata: {} };
    return this.saveResource({ resource: { ...known, workingMemory: workingMemory ?? known.workingMemory, metadata: { ...known.metadata, ...metadata }, updatedAt: now } });
  }

  async #list(threads: string[], options: ListOptions): Promise<StorageListMessagesOutput> {
    const { resourceId, include = [], filter, page = 0, perPage: given, orderBy } = options;
    const metadata = validateStorageMetadataFilter(filter?.metadata);
    this.validatePaginationInput(page, given ?? 40);
    const { direction } = this.parseOrderBy(orderBy, "ASC");
    const { offset, perPage } = calculatePagination(page, given, normalizePerPage(given, 40));
    const ofResource = (message: MastraDBMessage) => !resourceId || message.resourceId === resourceId;
    const read = async (thread: string) => byTime((await this.namespace.session(thread).history({ limit: 1000 }).toArray()).map(messageOf)).filter(ofResource);
    const all = filterByDateRange((await Promise.all([...new Set(threads)].map(read))).flat(), ({ createdAt }) => createdAt, filter?.dateRange);
    const matching = byTime(all.filter((message) => storageMessageMatchesMetadataFilter(message.content, metadata)), direction);
    const end = perPage === false ? matching.length : offset + perPage;
    const found = new Map(matching.slice(offset, end).map((message) => [message.id, message]));
    for (const { id, withPreviousMessages = 0, withNextMessages = 0 } of include) {
      const { session } = (await this.namespace.get(id)) ?? {};
      const around = session === undefined ? [] : await read(session);
      const at = around.findIndex((message) => message.id === id);
      if (at >= 0) for (const message of around.slice(Math.max(0, at - withPreviousMessages), at + withNextMessages + 1)) found.set(message.id, message);
    }
    return { messages: byTime([...found.values()], direction), total: matching.length, page, perPage, hasMore: perPage !== 0 && end < matching.length };
  }

  /** Sets the time of the last change of threads. */
  async #touch(threads: (string | undefined)[]): Promise<void> {
    for (const threadId of new Set(threads)) {
      const thread = threadId && (await this.getThreadById({ threadId }));
      if (thread) await this.saveThread({ thread: { ...thread, updatedAt: new Date(Math.max(Date.now(), thread.updatedAt.getTime() + 1)) } });
    }
  }
}

function inputOf({ id, role, type, threadId, resourceId, content, createdAt }: MastraDBMessage): MessageInput {
  const text = content.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
  const kept: Kept = { role, type, threadId, resourceId, content };
  return {
    id,
    role: role === "user" || role === "assistant" ? role : "system",
    session: threadId,
    created_at: new Date(createdAt).toISOString(),
    content: text.trim() === "" ? `(${content.parts[0]?.type ?? role})` : text,
    metadata: { mastra: kept },
  };
}

/** The message of Mastra, or what another program stored as one. */
function messageOf({ id, role, session, created_at, content, metadata }: Message): MastraDBMessage {
  const kept = metadata?.["mastra"] as Kept | undefined;
  const text = typeof content === "string" ? content : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
  const createdAt = new Date(created_at ?? 0);
  if (kept) return { ...kept, id, createdAt };
  return { id, role: role === "tool" ? "assistant" : role, threadId: session, createdAt, content: { format: 2, parts: [{ type: "text", text }] } };
}

function dated<T extends { createdAt: Date; updatedAt: Date }>(value: T): T {
  return { ...value, createdAt: new Date(value.createdAt), updatedAt: new Date(value.updatedAt) };
}

function byTime(messages: MastraDBMessage[], direction: "ASC" | "DESC" = "ASC"): MastraDBMessage[] {
  return messages.sort((a, b) => (direction === "ASC" ? 1 : -1) * (a.createdAt.getTime() - b.createdAt.getTime()));
}
