/** Documents as the Python package writes them, so that its programs and those of this package share what they store: names, lists, changes. */

import type { Mnemon } from "./client.js";
import { jsonOf } from "./serializers.js";
import type { BatchOperation, Document, Filter } from "./types.js";

const KEY_BYTES = 512;
const PAGE = 1000;
/** Operations of a batch at most. */
const BATCH = 1000;
/** Bytes of operations in a request, which has 8 MiB at most. */
const BATCH_BYTES = 8_300_000;

/** The namespace of labels of any text. */
export function spaceOf(...labels: string[]): string {
  return labels.map((label) => escaped(label).replace(/%(?=(25)*2F)/g, "%25").replaceAll("/", "%2F")).join("/");
}

/** The labels that `spaceOf` was given. */
export function labelsOf(namespace: string): string[] {
  const unescaped = (label: string) => label.replace(/%2F|%25(?=(25)*2F)/g, (found) => (found === "%2F" ? "/" : "%"));
  return namespace.split("/").map((label) => unescaped(label).replace(/\\([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16))));
}

/** A key that differs if a part differs. */
export async function keyOf(...parts: string[]): Promise<string> {
  const text = parts.map((part) => JSON.stringify(part).replace(/[\x7f-\uffff]/g, (char) => `\\u${hex(char.charCodeAt(0), 4)}`)).join(", ");
  if (text.length <= KEY_BYTES - 8) return text;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => hex(byte, 2)).join("");
}

/** Returns the documents that a filter matches, the last put first. Cost: a pass over the namespace's documents. */
export async function listed<T>(mnemon: Mnemon, namespace: string, filter: Filter, limit = Infinity): Promise<Document<T>[]> {
  const found = new Map<string, Document<T>>();
  for (let offset = 0; offset < limit; offset += PAGE) {
    const page = await mnemon.namespace(namespace).documents.search<T>(null, { filter, limit: Math.min(PAGE, limit - offset), offset });
    // What is put meanwhile moves the others on.
    for (const document of page) found.set(document.key, document);
    if (page.length < PAGE) break;
  }
  return [...found.values()];
}

/**
 * Makes changes in one commit. If they are more than a batch or a request takes, they are several commits, in order. With `flush` they
 * are found by meaning at once.
 */
export async function change(mnemon: Mnemon, changes: BatchOperation[], options: { flush?: boolean } = {}): Promise<void> {
  let batch: BatchOperation[] = [];
  let bytes = 0;
  for (const operation of changes) {
    const size = new TextEncoder().encode(jsonOf(operation)).length;
    if (batch.length === BATCH || (batch.length > 0 && bytes + size > BATCH_BYTES)) {
      await mnemon.batch(batch);
      [batch, bytes] = [[], 0];
    }
    batch.push(operation);
    bytes += size;
  }
  if (batch.length > 0) await mnemon.batch(batch, options);
}

function escaped(label: string): string {
  return label.replace(/[\x00-\x1f\x7f-\x9f\\]/g, (char) => `\\${hex(char.charCodeAt(0), 2)}`);
}

function hex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, "0");
}
