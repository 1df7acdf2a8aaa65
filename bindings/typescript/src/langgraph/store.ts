/** LangGraph's cross-thread store, in documents: those of the Python package's `MnemonStore`. */

import {
  BaseStore, type Item, type ListNamespacesOperation, type Operation, type OperationResults, type SearchItem,
} from "@langchain/langgraph-checkpoint";

import type { Mnemon } from "../client.js";
import { labelsOf, spaceOf } from "../names.js";
import type { BatchOperation, Document, Filter } from "../types.js";

/**
 * Keeps the items of LangGraph's store below the namespace `prefix`. A query finds items by meaning and by words; `fields` are the paths
 * that are indexed unless a put names others, by default the whole value. A batch is one
 * request: its reads come first, its changes are one commit.
 *
 * A value is stored as JSON: a `Date` comes back as text, `NaN` and `Infinity` as null. A BigInt is an `InvalidArgumentError`.
 */
export class MnemonStore extends BaseStore {
  readonly #prefix: string[];
  readonly #fields: string[] | undefined;

  constructor(readonly mnemon: Mnemon, options: { prefix?: string[]; fields?: string[] } = {}) {
    super();
    this.#prefix = options.prefix ?? ["langgraph", "store"];
    this.#fields = options.fields;
  }

  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const results: unknown[] = await Promise.all(operations.map((op) => (isList(op) ? this.#namespaces(op) : undefined)));
    const others = [...operations.entries()].flatMap(([at, op]) => (isList(op) ? [] : [{ at, op }]));
    if (others.length > 0) {
      // LangGraph's stores find by meaning what was put just before.
      const outcomes = await this.mnemon.batch(others.map(({ op }) => this.#operation(op)), { flush: others.some(({ op }) => "value" in op) });
      for (const [nth, { at }] of others.entries()) {
        const { document, documents } = outcomes[nth] as { document?: Document | null; documents?: Document[] };
        if (document !== undefined) results[at] = document && this.#item(document);
        if (documents) results[at] = documents.map((found): SearchItem => ({ ...this.#item(found), score: found.score ?? undefined }));
      }
    }
    return results as OperationResults<Op>;
  }

  #operation(op: Exclude<Operation, ListNamespacesOperation>): BatchOperation {
    if ("namespacePrefix" in op) {
      const { query = null, filter, limit = 10, offset = 0 } = op;
      return { op: "search", namespace: this.#space(op.namespacePrefix), query, filter: filter && where(filter), below: true, limit, offset };
    }
    const place = { namespace: this.#space(op.namespace), key: op.key };
    if (!("value" in op)) return { op: "get", ...place };
    if (op.value === null) return { op: "delete", ...place };
    return { op: "put", ...place, value: op.value, index: op.index === false ? [] : (op.index ?? this.#fields) };
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

  #space(namespace: string[]): string {
    return spaceOf(...this.#prefix, ...namespace);
  }
}

function isList(op: Operation): op is ListNamespacesOperation {
  return !("key" in op) && !("namespacePrefix" in op);
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
