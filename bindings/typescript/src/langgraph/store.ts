/** LangGraph's cross-thread store, in documents: those of the Python package's `MnemonStore`. */

import {
  BaseStore, type Item, type ListNamespacesOperation, type Operation, type OperationResults, type PutOperation, type SearchItem,
} from "@langchain/langgraph-checkpoint";

import type { Mnemon } from "../client.js";
import { embedded, labelsOf, spaceOf } from "../names.js";
import type { Document, Filter } from "../types.js";

/**
 * Keeps the items of LangGraph's store below the namespace `prefix`. A query finds items by meaning and by words; `fields` are the paths
 * that are indexed unless a put names others, by default the whole value. Of a batch, reads come first, and each change is a commit.
 */
export class MnemonStore extends BaseStore {
  readonly #prefix: string[];
  readonly #fields: string[] | undefined;
  #pending = false;

  constructor(readonly mnemon: Mnemon, options: { prefix?: string[]; fields?: string[] } = {}) {
    super();
    this.#prefix = options.prefix ?? ["langgraph", "store"];
    this.#fields = options.fields;
  }

  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    // LangGraph's stores find by meaning what was put just before.
    if (this.#pending && operations.some((op) => "namespacePrefix" in op && op.query)) await embedded(this.mnemon);
    const results = await Promise.all(operations.map((op) => ("value" in op ? undefined : this.#read(op))));
    // Of several puts to a key the last counts.
    const puts = new Map(operations.filter((op) => "value" in op).map((op) => [JSON.stringify([op.namespace, op.key]), op]));
    await Promise.all([...puts.values()].map((op) => this.#put(op)));
    return results as OperationResults<Op>;
  }

  async #read(op: Exclude<Operation, PutOperation>): Promise<Item | SearchItem[] | string[][] | null> {
    if ("namespacePrefix" in op) {
      const { query, filter, limit = 10, offset = 0 } = op;
      const found = await this.#documents(op.namespacePrefix).search(query ?? null, { filter: filter && where(filter), below: true, limit, offset });
      return found.map((document) => ({ ...this.#item(document), score: document.score ?? undefined }));
    }
    if (!("key" in op)) return this.#namespaces(op);
    const document = await this.#documents(op.namespace).get(op.key);
    return document && this.#item(document);
  }

  async #put({ namespace, key, value, index }: PutOperation): Promise<void> {
    if (value === null) {
      await this.#documents(namespace).delete(key);
      return;
    }
    this.#pending = true;
    await this.#documents(namespace).put(key, value, { index: index === false ? [] : (index ?? this.#fields) });
  }

  async #namespaces({ matchConditions = [], maxDepth, limit, offset }: ListNamespacesOperation): Promise<string[][]> {
    const found = new Map<string, string[]>();
    for await (const { namespace, documents } of this.mnemon.namespaces({ prefix: spaceOf(...this.#prefix), limit: 1000 })) {
      const labels = labelsOf(namespace).slice(this.#prefix.length);
      const matches = matchConditions.every(({ matchType, path }) => {
        const part = matchType === "prefix" ? labels.slice(0, path.length) : labels.slice(Math.max(0, labels.length - path.length));
        return part.length === path.length && path.every((label, at) => label === "*" || label === part[at]);
      });
      const shown = labels.slice(0, maxDepth);
      if (documents > 0 && matches) found.set(JSON.stringify(shown), shown);
    }
    return [...found.values()].slice(offset, offset + limit);
  }

  #item({ namespace, key, value, created_at, updated_at }: Document): Item {
    const labels = labelsOf(namespace).slice(this.#prefix.length);
    return { namespace: labels, key, value: value as Item["value"], createdAt: new Date(created_at), updatedAt: new Date(updated_at) };
  }

  #documents(namespace: string[]) {
    return this.mnemon.namespace(spaceOf(...this.#prefix, ...namespace)).documents;
  }
}

/** The filter with each key as a path, in quotes: a dot in it is no step. */
function where(filter: Record<string, unknown>): Filter {
  return Object.fromEntries(Object.entries(filter).map(([key, wanted]) => [`[${JSON.stringify(key)}]`, condition(wanted)]));
}

function condition(wanted: unknown): unknown {
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) return wanted;
  if (Object.keys(wanted).some((key) => key.startsWith("$"))) return wanted;
  return Object.keys(wanted).length > 0 ? where(wanted as Record<string, unknown>) : { $eq: {} };
}
