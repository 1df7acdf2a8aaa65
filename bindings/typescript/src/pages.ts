/** Lists that the server sends in pages. */

import type { CallOptions } from "./transport.js";

/** A list that the server sends in pages: `for await (const item of list)`, or `await list.toArray()`. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #page: (cursor: string | undefined) => Promise<{ items: T[]; next?: string | null | undefined }>;

  /** @internal */
  constructor(page: (cursor: string | undefined) => Promise<{ items: T[]; next?: string | null | undefined }>) {
    this.#page = page;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let cursor: string | undefined;
    do {
      const { items, next } = await this.#page(cursor);
      yield* items;
      cursor = next ?? undefined;
    } while (cursor !== undefined);
  }

  async toArray(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }
}

/** Options of a list. */
export interface ListOptions extends CallOptions {
  /** Items of a page, 1 to 1000. All pages are read in any case. */
  limit?: number;
}
