/**
 * The checkpoints of LangGraph's graphs, in documents.
 *
 * A thread has three namespaces. `checkpoints` has a document for each checkpoint: its ids and metadata. `writes` has one for each call of
 * `putWrites`; calls are merged when they are read, so tasks that run at the same time lose nothing. `data` has what is long: texts in
 * parts, each under a new key, in the same commit; of what is more than a request takes, the last parts are.
 *
 * Checkpoints are whole, with all channels, as those of LangGraph's savers for memory, SQLite and MongoDB are.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver, type ChannelVersions, type Checkpoint, type CheckpointListOptions, type CheckpointMetadata,
  type CheckpointPendingWrite, type CheckpointTuple, compareWritesSortKeys, getCheckpointId, maxChannelVersion, type PendingWrite,
  type SerializerProtocol, TASKS, WRITES_IDX_MAP, writesSortKey, type WritesSortKey,
} from "@langchain/langgraph-checkpoint";

import type { Mnemon } from "../client.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { change, keyOf, labelsOf, listed, spaceOf } from "../names.js";
import { unwritable } from "../serializers.js";
import { newId } from "../transport.js";
import type { Filter } from "../types.js";

/** Characters of a text beside the fields of its document. Lists of checkpoints read those documents, so they are short. */
const INLINE = 4_000;
/** Characters of a part. A document has 1 MiB as JSON, in which a character of JSON has three bytes at most. */
const PART = 300_000;
/** LangGraph's serializer writes this in the place of a whole value that `JSON.stringify` refuses, without an error. */
const NOT_WRITTEN = "\"[unable to serialize, circular reference is too complex to analyze]\"";

type Text = { text: string } | { parts: string[] };
/** A checkpoint: its namespace in the thread, its id, and that of its parent. */
type Head = Text & { space: string; id: string; parent: string | null; metadata: unknown };
/** A call of `putWrites`. Its text is JSON: the index, the channel and the value of each write. */
type Writes = Text & { space: string; id: string; task: string; path: string };

/**
 * Keeps the checkpoints of graphs below the namespace `prefix`. A checkpoint of up to 2 million characters is one request. A BigInt is an
 * `InvalidArgumentError`, and nothing is stored. As LangGraph's serializer writes them, a `Date` comes back as text, and `NaN` and
 * `Infinity` as null.
 */
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
    const [head] = await (id ? this.#values<Head>(thread, "checkpoints", [await keyOf(space, id)]) : this.#newest(thread, { space }, 1));
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
    const head = { space, id, parent, metadata: JSON.parse(about) };
    await this.#store(thread, "checkpoints", await keyOf(space, id), head, await this.#dumped(checkpoint));
    return configOf(thread, space, id);
  }

  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const { thread_id: thread, checkpoint_ns: space = "", checkpoint_id: id } = config.configurable ?? {};
    if (thread === undefined || id === undefined) throw new InvalidArgumentError("putWrites needs a thread_id and a checkpoint_id in config.configurable");
    const rows = await Promise.all(writes.map(async ([channel, value], at) => [WRITES_IDX_MAP[channel] ?? at, channel, await this.#dumped(value)]));
    await this.#store(thread, "writes", newId(), { space, id, task: taskId, path: taskPath }, JSON.stringify(rows));
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

  /** Stores a document: its fields and a text, or the keys of the text's parts, which come before it. */
  async #store(thread: string, kind: string, key: string, fields: object, text: string): Promise<void> {
    const parts: string[] = [];
    for (let at = 0, end = 0; text.length > INLINE && at < text.length; at = end) {
      end = at + PART;
      // A part ends with a whole character.
      if (/[\ud800-\udbff]/.test(text[end - 1] ?? "")) end--;
      parts.push(text.slice(at, end));
    }
    const changes = parts.map((part) => this.#put(thread, "data", newId(), part));
    const stored: Text = parts.length > 0 ? { parts: changes.map(({ key }) => key) } : { text };
    await change(this.mnemon, [...changes, this.#put(thread, kind, key, { ...fields, ...stored })]);
  }

  #put(thread: string, kind: string, key: string, value: string | object) {
    return { op: "put" as const, namespace: this.#space(thread, kind), key, value, index: [] };
  }

  async #text(thread: string, stored: Text): Promise<string> {
    if ("text" in stored) return stored.text;
    return (await this.#values<string>(thread, "data", stored.parts)).map((part) => {
      if (part === undefined) throw new NotFoundError(`the thread ${JSON.stringify(thread)} was deleted while a checkpoint of it was read`);
      return part;
    }).join("");
  }

  async #values<T>(thread: string, kind: string, keys: string[]): Promise<(T | undefined)[]> {
    const found = await this.mnemon.batch(keys.map((key) => ({ op: "get" as const, namespace: this.#space(thread, kind), key })));
    return found.map(({ document }) => document?.value as T | undefined);
  }

  /** A value as the serializer writes it: JSON, or the kind and base64. */
  async #dumped(value: unknown): Promise<string> {
    const [kind, bytes] = await this.serde.dumpsTyped(value);
    if (kind !== "json") return `${kind} ${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
    const text = new TextDecoder().decode(bytes);
    if (text === NOT_WRITTEN && typeof value !== "string") throw unwritable(value);
    return text;
  }

  async #loaded<T>(text: string): Promise<T> {
    const [, kind, data] = /^([^\s"{[]+) ([A-Za-z0-9+/=]*)$/.exec(text) ?? [];
    return kind === undefined ? this.serde.loadsTyped("json", text) : this.serde.loadsTyped(kind, Uint8Array.from(atob(data ?? ""), (char) => char.charCodeAt(0)));
  }

  #space(thread: string, kind: string): string {
    return spaceOf(...this.#prefix, `:${thread}`, kind);
  }
}

function configOf(thread: string, space: string, id: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: space, checkpoint_id: id } };
}
