/** Ids of messages that have none, so that a request that is repeated stores nothing twice. */

import type { components } from "./schema.js";
import { jsonOf } from "./serializers.js";
import { newId } from "./transport.js";
import type { MessageInput, MessageLike, Messages } from "./types.js";

type Input = components["schemas"]["MessageInput"] & { id: string };

/** Returns a message with an id. */
export function input(message: MessageLike, makeId: (fields: object) => string): Input {
  const fields = (typeof message === "string" ? { role: "user", content: message } : message) as MessageInput;
  return { ...(fields as components["schemas"]["MessageInput"]), id: fields?.id ?? makeId(fields) };
}

/** Returns messages with ids. Those that get one here get the same if the call is repeated with its key, at the same place. */
export function inputs(messages: Messages, { idempotencyKey }: { idempotencyKey?: string }, ...place: string[]): Input[] {
  const all: readonly MessageLike[] = Array.isArray(messages) ? messages : [messages as MessageLike];
  const repeated = (fields: object, at: number) => `${idempotencyKey}:${at}:${checksum(jsonOf([place, fields]))}`;
  return all.map((message, at) => input(message, idempotencyKey === undefined ? newId : (fields) => repeated(fields, at)));
}

/** FNV-1a, 32 bits: tells apart what one key is used for by mistake, so that no message replaces another. */
function checksum(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16);
}
