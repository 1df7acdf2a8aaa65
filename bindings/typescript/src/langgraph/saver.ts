/**
 * The checkpoints of LangGraph's graphs, in documents.
 *
 * A thread has three namespaces. `checkpoints` has a document for each checkpoint: its ids and metadata. `writes` has one for each call of
 * `putWrites`; calls are merged when they are read, so tasks that run at the same time lose nothing. `data` has what is long: texts in
 * parts, each under a new key. They are stored first: a checkpoint is there, whole, once its own document is.
 *
 * Checkpoints are whole, with all channels, as those of LangGraph's savers for memory, SQLite and MongoDB are.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver, type ChannelVersions, type Checkpoint, type CheckpointListOptions, type CheckpointMetadata,
  type CheckpointPendingWrite, type CheckpointTuple, compareWritesSortKeys, getCheckpointId, maxChannelVersion, type PendingWrite,
  type SerializerProtocol, TASKS, WRITES_IDX_MAP, writesSortKey, type WritesSortKey,
} from "@langchain/langgraph-checkpoint";

import type { Documents, Mnemon } from "../client.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { keyOf, labelsOf, listed, spaceOf } from "../names.js";
import { newId } from "../transport.js";
import type { Filter } from "../types.js";

/** Characters of a text beside the fields of its document. Lists of checkpoints read those documents, so they are short. */
const INLINE = 4_000;
/** Characters of a part. A document has 1 MiB as JSON, in which a character of JSON has three bytes at most. */
const PART = 300_000;

type Text = { text: string } | { parts: string[] };
/** A checkpoint: its namespace in the thread, its id, and that of its parent. */
type Head = Text & { space: string; id: string; parent: string | null; metadata: unknown };
/** A call of `putWrites`. Its text is JSON: the index, the channel and the value of each write. */
type Writes = Text & { space: string; id: string; task: string; path: string };

/** Keeps the checkpoints of graphs below the namespace `prefix`. A checkpoint is one request, or two if it has more than 4,000 characters. */
export class MnemonSaver extends BaseCheckpointSaver {
  readonly #prefix: string[];

  constructor(readonly mnemon: Mnemon, options: { prefix?: string[]; serde?: SerializerProtocol } = {}) {
    super(options.serde);
    this.#prefix = options.prefix ?? ["langgraph", "js-checkpoints"];
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread_id: thread, checkpoint_ns: space = "" } = config.configurable ?? {};
    if (thread === undefined) return undefined;
    const id = getCheckpointId(config);
    const head = id ? (await this.#documents(thread, "checkpoints").get<Head>(await keyOf(space, id)))?.value : (await this.#newest(thread, { space }, 1))[0];
    return head && this.#tuple(thread, head);
  }

  override async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id: thread, checkpoint_ns: space, checkpoint_id: id } = config.configurable ?? {};
    const before = options.before && getCheckpointId(options.before);
    const metadata = Object.entries(options.filter ?? {}).map(([key, value]) => [`[${JSON.stringify(key)}]`, value === undefined ? { $exists: false } : { $eq: value }]);
    const where: Filter = {
      ...(space !== undefined && { space }),
      ...((id || before) && { id: { ...(id && { $eq: id }), ...(before && { $lt: before }) } }),
      ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
    };
    let left = options.limit ?? Infinity;
    for (const one of thread === undefined ? await this.#threads() : [thread]) {
      if (left <= 0) return;
      const heads = await this.#newest(one, where, left);
      left -= heads.length;
      for (const head of heads) yield this.#tuple(one, head);
    }
  }

  override async put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, _: ChannelVersions): Promise<RunnableConfig> {
    const { thread_id: thread, checkpoint_ns: space = "", checkpoint_id: parent = null } = config.configurable ?? {};
    const { id } = checkpoint;
    const about = await this.#dumped(metadata);
    if (thread === undefined) throw new InvalidArgumentError("put needs a thread_id in config.configurable, such as { configurable: { thread_id: \"1\" } }");
    if (!about.startsWith("{")) throw new InvalidArgumentError("the serializer of a MnemonSaver must write metadata as JSON, by which lists filter");
    const head: Head = { space, id, parent, metadata: JSON.parse(about), ...(await this.#stored(thread, await this.#dumped(checkpoint))) };
    await this.#documents(thread, "checkpoints").put(await keyOf(space, id), head, { index: [] });
    return configOf(thread, space, id);
  }

  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const { thread_id: thread, checkpoint_ns: space = "", checkpoint_id: id } = config.configurable ?? {};
    if (thread === undefined || id === undefined) throw new InvalidArgumentError("putWrites needs a thread_id and a checkpoint_id in config.configurable");
    const rows = await Promise.all(writes.map(async ([channel, value], at) => [WRITES_IDX_MAP[channel] ?? at, channel, await this.#dumped(value)]));
    const kept: Writes = { space, id, task: taskId, path: taskPath, ...(await this.#stored(thread, JSON.stringify(rows))) };
    await this.#documents(thread, "writes").put(newId(), kept, { index: [] });
  }

  override async deleteThread(threadId: string): Promise<void> {
    await this.mnemon.namespace(spaceOf(...this.#prefix, `:${threadId}`)).deleteNamespace({ below: true });
  }

  /** The checkpoints that match with the greatest ids, those first. They are nearly always the ones that were put last. */
  async #newest(thread: string, where: Filter, limit: number): Promise<Head[]> {
    const find = async (filter: Filter, limit?: number) => (await listed<Head>(this.mnemon, this.#space(thread, "checkpoints"), filter, limit)).map((found) => found.value);
    const last = await find(where, limit);
    const least = last.map((head) => head.id).sort()[0];
    const more = last.length < limit || least === undefined ? [] : await find({ $and: [where, { id: { $gt: least } }] });
    const heads = new Map([...last, ...more].map((head) => [`${head.id} ${head.space}`, head]));
    return [...heads.values()].sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)).slice(0, limit);
  }

  async #tuple(thread: string, head: Head): Promise<CheckpointTuple> {
    const { space, id, parent } = head;
    const [text, pendingWrites] = await Promise.all([this.#text(thread, head), this.#writes(thread, space, id)]);
    const checkpoint: Checkpoint = await this.#loaded(text);
    if (checkpoint.v < 4 && parent !== null) {
      // Before version 4 what was sent to tasks was no channel.
      checkpoint.channel_values[TASKS] = (await this.#writes(thread, space, parent)).filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
      const versions = Object.values(checkpoint.channel_versions);
      checkpoint.channel_versions[TASKS] = versions.length ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
    }
    const metadata = await this.#loaded<CheckpointMetadata>(JSON.stringify(head.metadata));
    const tuple = { config: configOf(thread, space, id), checkpoint, metadata, pendingWrites };
    return parent === null ? tuple : { ...tuple, parentConfig: configOf(thread, space, parent) };
  }

  /** The writes of a checkpoint in LangGraph's order. Of two with one index the first counts; of errors, interrupts and the like the last. */
  async #writes(thread: string, space: string, id: string): Promise<CheckpointPendingWrite[]> {
    const calls = (await listed<Writes>(this.mnemon, this.#space(thread, "writes"), { space, id })).reverse();
    const texts = await Promise.all(calls.map(({ value }) => this.#text(thread, value)));
    const found = new Map<string, { key: WritesSortKey; write: [string, string, string] }>();
    for (const [at, { value: { task, path } }] of calls.entries()) {
      for (const [index, channel, value] of JSON.parse(texts[at] ?? "") as [number, string, string][]) {
        const name = `${index} ${task}`;
        if (index < 0 || !found.has(name)) found.set(name, { key: writesSortKey(path, task, index), write: [task, channel, value] });
      }
    }
    const sorted = [...found.values()].sort((a, b) => compareWritesSortKeys(a.key, b.key));
    return Promise.all(sorted.map(async ({ write: [task, channel, value] }): Promise<CheckpointPendingWrite> => [task, channel, await this.#loaded(value)]));
  }

  async #threads(): Promise<string[]> {
    const names = (await this.mnemon.namespaces({ prefix: spaceOf(...this.#prefix), limit: 1000 }).toArray()).map(({ namespace }) => labelsOf(namespace));
    return names.filter((labels) => labels[this.#prefix.length + 1] === "checkpoints").map((labels) => labels[this.#prefix.length]?.slice(1) ?? "");
  }

  /** Stores a text that is too long for the document of which it is. */
  async #stored(thread: string, text: string): Promise<Text> {
    if (text.length <= INLINE) return { text };
    const parts: [string, string][] = [];
    for (let at = 0, end = 0; at < text.length; at = end) {
      end = at + PART;
      // A part ends with a whole character.
      if (/[\ud800-\udbff]/.test(text[end - 1] ?? "")) end--;
      parts.push([newId(), text.slice(at, end)]);
    }
    await Promise.all(parts.map(([key, part]) => this.#documents(thread, "data").put(key, part, { index: [] })));
    return { parts: parts.map(([key]) => key) };
  }

  async #text(thread: string, stored: Text): Promise<string> {
    if ("text" in stored) return stored.text;
    const parts = await Promise.all(stored.parts.map((key) => this.#documents(thread, "data").get<string>(key)));
    return parts.map((part) => {
      if (!part) throw new NotFoundError(`the thread ${JSON.stringify(thread)} was deleted while a checkpoint of it was read`);
      return part.value;
    }).join("");
  }

  /** A value as the serializer writes it: JSON, or the kind and base64. */
  async #dumped(value: unknown): Promise<string> {
    const [kind, bytes] = await this.serde.dumpsTyped(value);
    return kind === "json" ? new TextDecoder().decode(bytes) : `${kind} ${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
  }

  async #loaded<T>(text: string): Promise<T> {
    const [, kind, data] = /^([^\s"{[]+) ([A-Za-z0-9+/=]*)$/.exec(text) ?? [];
    return kind === undefined ? this.serde.loadsTyped("json", text) : this.serde.loadsTyped(kind, Uint8Array.from(atob(data ?? ""), (char) => char.charCodeAt(0)));
  }

  #space(thread: string, kind: string): string {
    return spaceOf(...this.#prefix, `:${thread}`, kind);
  }

  #documents(thread: string, kind: string): Documents {
    return this.mnemon.namespace(this.#space(thread, kind)).documents;
  }
}

function configOf(thread: string, space: string, id: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: space, checkpoint_id: id } };
}
