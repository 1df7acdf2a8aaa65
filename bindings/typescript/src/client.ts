/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The client of `/v1`: `Mnemon` is a server, `Namespace` a memory in it, `Session` a conversation, `Documents` JSON values under keys.
 * Methods are named as in the Python package, fields as the server sends them.
 */

import createClient, { type Client } from "openapi-fetch";

import { errorOf, InvalidArgumentError, MnemonError, NotFoundError } from "./errors.js";
import { events } from "./events.js";
import { fileBody, type FileLike } from "./files.js";
import { input, inputs } from "./ids.js";
import { type ListOptions, Pages } from "./pages.js";
import { bodySerializer, given, pathSerializer } from "./serializers.js";
import type { components, paths } from "./schema.js";
import { type Call, type CallOptions, type ChangeOptions, type ClientOptions, newId, Transport } from "./transport.js";
import type {
  AssembleOptions, Audit, BatchAnswer, BatchOperation, Block, Document, DocumentOptions, FlushReport, ForgetRequest, Formation, FormingSession,
  FoundDocument, ImportOptions, ImportReport, LinkReport, MemoryMap, MemoryReport, MemoryToolAnswer, MemoryToolInput, Message, MessageLike, Messages, MessageVersion,
  NamespaceDetails, NamespaceInfo, NamespacesOptions, Prompt, PutAnswer, RecallAnswer, RecallInOptions, RecallOptions, Receipt, Refined,
  RefineOptions, ReindexEvent, ReindexOptions, ReindexProgress, ReindexReport, SearchOptions, SessionInfo, Stats, Why,
} from "./types.js";

type Api = Client<paths>;

/** A server of memories. */
export class Mnemon {
  /** The typed routes, for what has no method here: `mnemon.api.GET("/v1/stats")`. They throw the same errors. */
  readonly api: Api;
  readonly #transport: Transport;
  readonly #onClose: (() => void) | undefined;

  constructor(options: ClientOptions & { onClose?: (() => void) | undefined }) {
    const { url } = options;
    if (!/^https?:\/\//.test(url)) throw new InvalidArgumentError(`the url is ${url}; it must begin with http:// or https://`);
    this.#transport = new Transport(options);
    this.#onClose = options.onClose;
    this.api = createClient<paths>({ baseUrl: url.replace(/\/+$/, ""), pathSerializer, bodySerializer, fetch: this.#fetch({ repeatable: false }) });
  }

  /** The memory of this name, such as `users/ada`. It need not exist yet. */
  namespace(name: string): Namespace {
    return new Namespace(this, name);
  }

  /** Lists the namespaces, with their counts. */
  namespaces(options: NamespacesOptions & CallOptions = {}): Pages<NamespaceInfo> {
    const [fields, call] = divide(options);
    return new Pages(async (cursor) => {
      const page = await data(this.api.GET("/v1/namespaces", { params: { query: { ...fields, cursor } }, ...this.repeatable(call) }));
      return { items: page.namespaces, next: page.next };
    });
  }

  /** Finds messages of several namespaces, as one ranking: those in `namespaces`, and those at and under each of `under`. */
  async recallIn(query: string, options: RecallInOptions & CallOptions): Promise<RecallAnswer> {
    const [fields, call] = divide(options);
    return data(this.api.POST("/v1/recall", { body: { ...fields, query }, ...this.repeatable(call) }));
  }

  /**
   * Runs up to 1,000 operations, and returns the outcome of each. All changes are one commit; reads show what was there before. `expect`
   * refuses all of them, by a `DocumentChangedError`, unless a document has a value; a batch with it is not repeated after a lost connection.
   */
  async batch<const Operations extends readonly BatchOperation[]>(
    operations: Operations,
    options: { flush?: boolean } & ChangeOptions = {},
  ): Promise<BatchAnswer<Operations>> {
    const [{ flush = false }, call] = divide(options);
    const filled = operations.map((operation, at) => {
      if (operation.op !== "put_messages") return operation as Exclude<components["schemas"]["BatchOperation"], { op: "put_messages" }>;
      return { ...operation, messages: inputs(operation.messages, call, operation.namespace, `${at}`) };
    });
    const sent = operations.some(({ op }) => op === "expect") ? this.changes(call) : this.repeatable(call);
    const params = { header: key(call) };
    const { outcomes } = await data(this.api.POST("/v1/batch", { params, body: { operations: filled, flush }, ...sent }));
    const answer = filled.map((operation, at) => {
      return operation.op === "put_messages" ? { ids: operation.messages.map(({ id }) => id), ...outcomes[at] } : outcomes[at];
    });
    return answer as BatchAnswer<Operations>;
  }

  /**
   * Stores the messages of a file that another program wrote, or of a zip archive of files, in the namespaces that the file names: those of its
   * lines, or of the folders in which a coding agent worked. See `Namespace.importFile`.
   */
  async importFile(file: FileLike, options: ImportOptions & CallOptions = {}): Promise<ImportReport> {
    const [fields, sent] = await this.file(file, options);
    return data(this.api.POST("/v1/import", { params: { query: fields }, ...sent }));
  }

  /** Embeds all pending messages, so that they are found by meaning. Otherwise that happens a second after a put. */
  async flush(options: CallOptions = {}): Promise<FlushReport> {
    return data(this.api.POST("/v1/flush", { ...this.slow(options, true) }));
  }

  /** Links the vectors of large namespaces now, and not when they are asked first. */
  async link(options: CallOptions = {}): Promise<LinkReport> {
    return data(this.api.POST("/v1/link", { ...this.slow(options, true) }));
  }

  async stats(options: CallOptions = {}): Promise<Stats> {
    return data(this.api.GET("/v1/stats", { ...this.repeatable(options) }));
  }

  /** Returns the receipts of all that was forgotten, held and purged, and whether they are sound. */
  async audit(options: CallOptions = {}): Promise<Audit> {
    const entries: Audit["entries"] = [];
    let cursor: string | undefined;
    for (;;) {
      const query = { limit: 1000, ...(cursor === undefined ? {} : { cursor }) };
      const { next, ...page } = await data(this.api.GET("/v1/audit", { params: { query }, ...this.repeatable(options) }));
      entries.push(...page.entries);
      if (next === null) return { ...page, entries };
      cursor = next;
    }
  }

  /** Copies the database to a new file on the server's machine. A relative path begins at the database's folder. */
  async backup(path: string, options: CallOptions = {}): Promise<void> {
    await this.api.POST("/v1/backup", { body: { path }, ...this.slow(options, false) });
  }

  /** Moves the database to another model or precision while it serves. It goes on as long as the progress is read; a later call resumes it. */
  async *reindex(options: ReindexOptions & Pick<CallOptions, "signal"> = {}): AsyncGenerator<ReindexProgress, ReindexReport, undefined> {
    const [body, call] = divide(options);
    const stream = await data(this.api.POST("/v1/reindex", { body, parseAs: "stream", ...this.slow(call, false) }));
    for await (const { event, data } of events(stream as ReadableStream<Uint8Array>, call.signal)) {
      const sent = { event, data: JSON.parse(data) as unknown } as ReindexEvent;
      if (sent.event === "failed") throw errorOf(sent.data, 200);
      if (sent.event === "done") return sent.data.report;
      if (sent.event === "progress") yield sent.data;
    }
    throw new MnemonError("the server ended during the reindex; call it again to go on with it");
  }

  /** Returns true if the server answers and can read its database. */
  async ready(options: CallOptions = {}): Promise<boolean> {
    return this.api.GET("/ready", { ...this.repeatable(options) }).then(() => true, () => {
      options.signal?.throwIfAborted();
      return false;
    });
  }

  /** Closes the idle connections of a client that `openLocal` returned. Others have none of their own. */
  close(): void {
    this.#onClose?.();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** @internal Options of a call that changes nothing, or nothing more if it is executed twice. */
  repeatable(call: CallOptions): { fetch: (request: Request) => Promise<Response> } {
    return { fetch: this.#fetch({ ...call, repeatable: true }) };
  }

  /** @internal Options of a call whose second execution could change something else. */
  changes(call: CallOptions): { fetch: (request: Request) => Promise<Response> } {
    return { fetch: this.#fetch({ ...call, repeatable: false }) };
  }

  /** @internal Options of a call that takes as long as it takes. */
  slow(call: CallOptions, repeatable: boolean): { fetch: (request: Request) => Promise<Response> } {
    return { fetch: this.#fetch({ ...call, repeatable, slow: true }) };
  }

  /** @internal The parameters of a call whose body is a file, and its options. It stores nothing twice if it is executed twice. */
  async file(file: FileLike, options: ImportOptions & CallOptions) {
    const [fields, call] = divide(options);
    const body = await fileBody(file);
    const fetch = this.#fetch({ ...call, repeatable: !body.isStream, slow: true, file: body });
    // The transport sends the file.
    return [{ name: body.name, ...fields }, { body: "", bodySerializer: () => undefined, fetch }] as const;
  }

  #fetch(call: Call): (request: Request) => Promise<Response> {
    return async (request) => {
      const answer = await this.#transport.send(request, call);
      const kind = answer.headers.get("content-type") ?? "";
      if (answer.status === 204 || (answer.ok && /json|event-stream|metrics/.test(kind))) return answer;
      const text = await answer.text();
      throw errorOf(parsed(text), answer.status);
    };
  }
}

/** A namespace: messages, sessions and documents that belong together, such as those of a user. */
export class Namespace {
  readonly documents: Documents;

  /** @internal */
  constructor(readonly mnemon: Mnemon, readonly name: string) {
    this.documents = new Documents(mnemon, name);
  }

  get #path() {
    return { namespace: this.name };
  }

  /** The facts that the server's language model formed of sessions, if it has one: documents of `NAME/facts`. */
  get facts(): Documents {
    return new Documents(this.mnemon, `${this.name}/facts`);
  }

  /** The namespace `NAME/label`. */
  namespace(label: string): Namespace {
    return new Namespace(this.mnemon, `${this.name}/${given("label", label)}`);
  }

  /** A conversation, with a short-term buffer. It need not exist yet. */
  session(id: string): Session {
    return new Session(this.mnemon, this.name, id);
  }

  /**
   * Stores messages durably, in one commit. They are found by their words from then on, and by meaning a second later, or with `flush` at
   * once. Messages without an id get one here, so that a repetition stores nothing twice.
   */
  async put(messages: Messages, options: { flush?: boolean } & ChangeOptions = {}): Promise<PutAnswer> {
    const [{ flush = false }, call] = divide(options);
    const params = { path: this.#path, header: key(call) };
    const body = { messages: inputs(messages, call, this.name), flush };
    const route = "/v1/namespaces/{namespace}/messages";
    return data(this.mnemon.api.POST(route, { params, body, ...this.mnemon.repeatable(call) }));
  }

  /**
   * Stores the messages of a file that another program wrote, or of a zip archive as it is delivered: ChatGPT's, Claude's or Slack's export, chats of
   * WhatsApp and Telegram, transcripts of coding agents and others (docs/import.md). The format is found out. The file is sent while it is
   * read, and to import it again stores nothing twice. If the call fails, what came before is stored.
   */
  async importFile(file: FileLike, options: ImportOptions & CallOptions = {}): Promise<ImportReport> {
    const [query, sent] = await this.mnemon.file(file, options);
    return data(this.mnemon.api.POST("/v1/namespaces/{namespace}/import", { params: { path: this.#path, query }, ...sent }));
  }

  /** Finds the messages that answer a query, best first. */
  async recall(query: string, options: RecallOptions & CallOptions = {}): Promise<RecallAnswer> {
    const [fields, call] = divide(options);
    const [params, body] = [{ path: this.#path }, { ...fields, query }];
    return data(this.mnemon.api.POST("/v1/namespaces/{namespace}/recall", { params, body, ...this.mnemon.repeatable(call) }));
  }

  /** Returns a message, or null if there is none with this id. */
  async get(id: string, options: CallOptions = {}): Promise<Message | null> {
    const params = { path: { ...this.#path, id } };
    return orNull(data(this.mnemon.api.GET("/v1/namespaces/{namespace}/messages/{id}", { params, ...this.mnemon.repeatable(options) })));
  }

  /** Lists what a message was before each change, oldest first. Only a server with `--keep-versions` keeps that. */
  versions(id: string, options: ListOptions = {}): Pages<MessageVersion> {
    const [{ limit }, call] = divide(options);
    return new Pages(async (cursor) => {
      const params = { path: { ...this.#path, id }, query: { limit, cursor } };
      const route = "/v1/namespaces/{namespace}/messages/{id}/versions";
      const page = await data(this.mnemon.api.GET(route, { params, ...this.mnemon.repeatable(call) }));
      return { items: page.versions, next: page.next };
    });
  }

  /** Replaces the metadata of a message, and returns the message. */
  async setMetadata(id: string, metadata: Record<string, unknown>, options: ChangeOptions = {}): Promise<Message> {
    const params = { path: { ...this.#path, id }, header: key(options) };
    return data(
      this.mnemon.api.PATCH("/v1/namespaces/{namespace}/messages/{id}", { params, body: { metadata }, ...this.mnemon.repeatable(options) }),
    );
  }

  /** Deletes messages in one commit, and returns how many there were. Unknown ids are ignored. */
  async delete(ids: string | readonly string[], options: ChangeOptions = {}): Promise<number> {
    const [{ deleted }] = await this.mnemon.batch([{ op: "delete_messages", namespace: this.name, ids: [ids].flat() }], options);
    return deleted;
  }

  /** Returns the latest recall that found a message, and what the same query finds today. Null if none is known. */
  async why(id: string, options: CallOptions = {}): Promise<Why | null> {
    const params = { path: { ...this.#path, id } };
    const route = "/v1/namespaces/{namespace}/messages/{id}/why";
    return (await orNull(data(this.mnemon.api.GET(route, { params, ...this.mnemon.repeatable(options) })))) as Why | null;
  }

  /** Lists the sessions, ordered by their ids. */
  sessions(options: ListOptions = {}): Pages<SessionInfo> {
    const [{ limit }, call] = divide(options);
    return new Pages(async (cursor) => {
      const params = { path: this.#path, query: { limit, cursor } };
      const page = await data(this.mnemon.api.GET("/v1/namespaces/{namespace}/sessions", { params, ...this.mnemon.repeatable(call) }));
      return { items: page.sessions, next: page.next };
    });
  }

  /** Lists what memory blocks have made. */
  blocks(options: ListOptions = {}): Pages<Block> {
    const [{ limit }, call] = divide(options);
    return new Pages(async (cursor) => {
      const params = { path: this.#path, query: { limit, cursor } };
      const page = await data(this.mnemon.api.GET("/v1/namespaces/{namespace}/blocks", { params, ...this.mnemon.repeatable(call) }));
      return { items: page.blocks, next: page.next };
    });
  }

  /**
   * Forgets messages, documents, a session or the namespace with all that was made of them, and returns the receipt:
   * `forget({ by: "messages", ids })`. It is not repeated after a lost connection: look into `Mnemon.audit` then, and call it again.
   */
  async forget(what: ForgetRequest, options: CallOptions = {}): Promise<Receipt> {
    const params = { path: this.#path };
    return data(this.mnemon.api.POST("/v1/namespaces/{namespace}/forget", { params, body: what, ...this.mnemon.slow(options, false) }));
  }

  /** Runs a command of Claude's memory tool: takes the `input` of a `tool_use`, returns the fields of the `tool_result`. */
  async memoryTool(input: MemoryToolInput, options: ChangeOptions = {}): Promise<MemoryToolAnswer> {
    const params = { path: this.#path, header: key(options) };
    const call = input.command === "view" ? this.mnemon.repeatable(options) : this.mnemon.changes(options);
    return data(this.mnemon.api.POST("/v1/namespaces/{namespace}/memory_tool", { params, body: input, ...call }));
  }

  /** Returns counts of the namespace and those under it, and the state of its index. */
  async info(options: CallOptions = {}): Promise<NamespaceDetails> {
    return data(this.mnemon.api.GET("/v1/namespaces/{namespace}", { params: { path: this.#path }, ...this.mnemon.repeatable(options) }));
  }

  /** Returns what the server's language model made of sessions: the counts of blocks, and sessions that have something for them. */
  async formation(options: CallOptions = {}): Promise<Formation> {
    const sessions: FormingSession[] = [];
    for (let cursor: string | undefined; ; ) {
      const params = { path: this.#path, query: { cursor } };
      const page = await data(this.mnemon.api.GET("/v1/namespaces/{namespace}/formation", { params, ...this.mnemon.repeatable(options) }));
      const { next, ...formation } = page;
      sessions.push(...page.sessions);
      if (!next) return { ...formation, sessions };
      cursor = next;
    }
  }

  /** Returns a sample of messages as points of a plane, near if they mean the like. */
  async map(options: { sample?: number } & CallOptions = {}): Promise<MemoryMap> {
    const [{ sample }, call] = divide(options);
    const params = { path: this.#path, query: { sample } };
    return data(this.mnemon.api.GET("/v1/namespaces/{namespace}/map", { params, ...this.mnemon.slow(call, true) }));
  }

  /** Sets after how many minutes messages expire that are put from now on. Null: never. */
  async setTtl(ttlMinutes: number | null, options: ChangeOptions = {}): Promise<void> {
    const params = { path: this.#path, header: key(options) };
    const body = { ttl_minutes: ttlMinutes };
    await this.mnemon.api.PUT("/v1/namespaces/{namespace}/ttl", { params, body, ...this.mnemon.repeatable(options) });
  }

  /** Deletes the namespace, with `below` those under it, too. Returns the number of messages. */
  async deleteNamespace(options: { below?: boolean } & ChangeOptions = {}): Promise<number> {
    const [{ below }, call] = divide(options);
    // Very many are deleted by several requests, each with a key of its own: the answer of a key is kept.
    for (let deleted = 0, header = key(call); ; header = key({})) {
      const params = { path: this.#path, query: { below }, header };
      const answer = await data(this.mnemon.api.DELETE("/v1/namespaces/{namespace}", { params, ...this.mnemon.repeatable(call) }));
      deleted += answer.deleted;
      if (!answer.more) return deleted;
    }
  }
}

/** A conversation: its messages are in a short-term buffer, and move to long-term memory when it is over its budget. */
export class Session {
  /** @internal */
  constructor(readonly mnemon: Mnemon, readonly namespace: string, readonly id: string) {}

  get #path() {
    return { namespace: this.namespace, session: this.id };
  }

  /** Appends messages. Those without an id get one here, so that a repetition stores nothing twice. */
  async put(messages: Messages, options: { token_limit?: number } & ChangeOptions = {}): Promise<MemoryReport & { ids: string[] }> {
    const [fields, call] = divide(options);
    const params = { path: this.#path, header: key(call) };
    const body = { ...fields, messages: inputs(messages, call, this.namespace, this.id) };
    const route = "/v1/namespaces/{namespace}/sessions/{session}/messages";
    const report = await data(this.mnemon.api.POST(route, { params, body, ...this.mnemon.repeatable(call) }));
    return { ids: body.messages.map((message) => message.id), ...report };
  }

  /** Lists the messages of the session, in order. A session that does not exist has none. */
  history(options: ListOptions = {}): Pages<Message> {
    const [{ limit }, call] = divide(options);
    return new Pages(async (cursor) => {
      const params = { path: this.#path, query: { limit, cursor } };
      const route = "/v1/namespaces/{namespace}/sessions/{session}/messages";
      const page = await orNull(data(this.mnemon.api.GET(route, { params, ...this.mnemon.repeatable(call) })));
      return { items: page?.messages ?? [], next: page?.next };
    });
  }

  /**
   * Returns the last messages of the session, in order; with `before`, the last ones before the message of this id. One request reads 1,000
   * of them at most, or 4 MiB; if there are fewer than `count`, another one asks for more.
   */
  async last(count: number, options: { before?: string } & CallOptions = {}): Promise<Message[]> {
    const [{ before }, call] = divide(options);
    const messages: Message[] = [];
    while (messages.length < count) {
      const query = { last: Math.min(count - messages.length, 1000), before: messages[0]?.id ?? before };
      const route = "/v1/namespaces/{namespace}/sessions/{session}/messages";
      const page = await orNull(data(this.mnemon.api.GET(route, { params: { path: this.#path, query }, ...this.mnemon.repeatable(call) })));
      if (!page?.messages.length) break;
      messages.unshift(...page.messages);
    }
    return messages;
  }

  /** Makes the prompt for a message, which is not stored: blocks, what is recalled of other sessions, recent messages, the message. */
  async assemble(prompt: MessageLike, options: AssembleOptions & CallOptions = {}): Promise<Prompt> {
    const [fields, call] = divide(options);
    const params = { path: this.#path };
    const route = "/v1/namespaces/{namespace}/sessions/{session}/assemble";
    const body = { ...fields, prompt: input(prompt, newId) };
    return data(this.mnemon.api.POST(route, { params, body, ...this.mnemon.repeatable(call) }));
  }

  /** Moves the buffer to long-term memory, and returns the ids of its messages. */
  async flush(options: ChangeOptions = {}): Promise<string[]> {
    const params = { path: this.#path, header: key(options) };
    const route = "/v1/namespaces/{namespace}/sessions/{session}/flush";
    return (await data(this.mnemon.api.POST(route, { params, ...this.mnemon.repeatable(options) }))).flushed;
  }

  /** Hands a batch that a block gave up over to it again. Returns the number of batches that it takes. */
  async retry(block: string, options: CallOptions = {}): Promise<number> {
    const params = { path: this.#path };
    const route = "/v1/namespaces/{namespace}/sessions/{session}/retry";
    return (await data(this.mnemon.api.POST(route, { params, body: { block }, ...this.mnemon.repeatable(options) }))).taken;
  }

  /**
   * Has the server's language model write a block of instructions anew, from `feedback` on what was said last, or returns to an earlier
   * `version`. Not repeated after a lost connection: the model would be asked twice.
   */
  async refine(block: string, what: RefineOptions, options: CallOptions = {}): Promise<Refined> {
    const params = { path: this.#path };
    const route = "/v1/namespaces/{namespace}/sessions/{session}/refine";
    return data(this.mnemon.api.POST(route, { params, body: { ...what, block }, ...this.mnemon.slow(options, false) }));
  }

  /** Deletes the session with its messages. Throws `NotFoundError` if there is none. */
  async delete(options: ChangeOptions = {}): Promise<void> {
    const params = { path: this.#path, header: key(options) };
    await this.mnemon.api.DELETE("/v1/namespaces/{namespace}/sessions/{session}", { params, ...this.mnemon.repeatable(options) });
  }
}

/** JSON values under keys. Their texts are found by meaning and by words. */
export class Documents {
  /** @internal */
  constructor(readonly mnemon: Mnemon, readonly namespace: string) {}

  /** Stores a value, which is any JSON but null, up to 1 MiB. */
  async put(key_: string, value: unknown, options: DocumentOptions & ChangeOptions = {}): Promise<void> {
    const [fields, call] = divide(options);
    const params = { path: { namespace: this.namespace, key: key_ }, header: key(call) };
    const body = { ...fields, value: value as string };
    await this.mnemon.api.PUT("/v1/namespaces/{namespace}/documents/{key}", { params, body, ...this.mnemon.repeatable(call) });
  }

  /** Returns a document, or null if there is none under this key. */
  async get<T = unknown>(key: string, options: CallOptions = {}): Promise<Document<T> | null> {
    const params = { path: { namespace: this.namespace, key } };
    const found = data(this.mnemon.api.GET("/v1/namespaces/{namespace}/documents/{key}", { params, ...this.mnemon.repeatable(options) }));
    return (await orNull(found)) as Document<T> | null;
  }

  /** Deletes a document. Returns false if there was none. */
  async delete(key_: string, options: ChangeOptions = {}): Promise<boolean> {
    const params = { path: { namespace: this.namespace, key: key_ }, header: key(options) };
    const gone = this.mnemon.api.DELETE("/v1/namespaces/{namespace}/documents/{key}", { params, ...this.mnemon.repeatable(options) });
    return (await orNull(gone)) !== null;
  }

  /** Finds documents, best first; without a query lists them, the last put first. */
  async search<T = unknown>(query?: string | null, options: SearchOptions & CallOptions = {}): Promise<FoundDocument<T>[]> {
    const [fields, call] = divide(options);
    const params = { path: { namespace: this.namespace } };
    const body = { ...fields, query: query ?? null };
    const route = "/v1/namespaces/{namespace}/documents/search";
    const found = await data(this.mnemon.api.POST(route, { params, body, ...this.mnemon.repeatable(call) }));
    return found.documents as FoundDocument<T>[];
  }
}

async function data<T>(answer: Promise<{ data?: T }>): Promise<Exclude<T, undefined>> {
  return (await answer).data as Exclude<T, undefined>;
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  return answer.catch((error: unknown) => {
    if (error instanceof NotFoundError) return null;
    throw error;
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Divides options into the fields of the request and what is about the call. */
function divide<T extends ChangeOptions>(options: T): [Omit<T, keyof ChangeOptions>, ChangeOptions] {
  const { signal, timeoutMs, idempotencyKey, ...fields } = options;
  return [fields, { signal, timeoutMs, idempotencyKey }];
}

function key({ idempotencyKey = newId() }: ChangeOptions): { "Idempotency-Key": string } {
  if (!/^[!-~]{1,255}$/.test(idempotencyKey)) throw new InvalidArgumentError("an idempotencyKey has 1 to 255 visible ASCII characters");
  return { "Idempotency-Key": idempotencyKey };
}
