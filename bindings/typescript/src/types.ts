/** The types of requests and answers, by the names of the Python package. All are made of those that docs/openapi.json describes. */

import type { components, operations } from "./schema.js";

type Schemas = components["schemas"];

export type Message = Schemas["Message"];
/**
 * Takes any object where the description says that any is taken. Without this an object of an interface, such as those of OpenAI's client, is
 * refused: an interface has no index signature.
 */
type AnyObjects<T> = unknown extends T ? T
  : T extends readonly (infer Item)[] ? readonly AnyObjects<Item>[]
  : T extends object ? (string extends keyof T ? object : { [Key in keyof T]: AnyObjects<T[Key]> })
  : T;
export type MessageInput = AnyObjects<Schemas["MessageInput"]>;
/** A message: a text, which the user says; an object of OpenAI's chat format; or the fields of `Message`. */
export type MessageLike = string | MessageInput;
export type Messages = MessageLike | readonly MessageLike[];
export type MessageVersion = Schemas["Version"];
export type Filter = Schemas["Filter"];
export type RecallOptions = Omit<Schemas["Options"], "query">;
export type RecallInOptions = Omit<Schemas["SeveralOptions"], "query">;
export type AssembleOptions = Omit<Schemas["Assemble"], "prompt">;
export type SearchOptions = Omit<Schemas["Search"], "query">;
export type DocumentOptions = Omit<Schemas["Put3"], "value">;
export type ReindexOptions = Schemas["Reindex"];
export type Forget = Schemas["What"];
export type NamespaceInfo = Schemas["Counts"];
export type NamespacesOptions = Omit<NonNullable<operations["get_namespaces"]["parameters"]["query"]>, "cursor">;
export type MemoryToolInput = Schemas["MemoryToolInput"];
export type MemoryToolAnswer = Schemas["MemoryToolAnswer"];
export type Info = Schemas["Info"];
export type Stats = Schemas["Stats"];
export type Why = Schemas["WhyAnswer"];
export type MemoryMap = Schemas["Map"];
export type FormingSession = Schemas["FormingSession"];
export type Formation = Omit<Schemas["Formation"], "next">;

// The description says of the following only that they are objects. Their fields are here until it says more; a test compares them with
// what a server answers.

export interface Hit extends Message {
  /** The namespace, if several were asked. */
  namespace?: string;
  score: number;
  /** The cosine of question and passage. */
  similarity: number;
  /** 1 is the best. */
  rank: number;
  /** The part of the text that the question found, as bytes of its UTF-8. */
  passage: { start: number; end: number };
  breakdown: Record<string, unknown>;
  /** The ids of older messages that say the same but for what changed. */
  supersedes?: string[];
  /** The other messages of the turn or session. */
  others?: Message[];
}

export type Answer = Omit<Schemas["Answer"], "hits"> & { hits: Hit[] };

export type PutReport = { ids: string[]; new: number; replaced: number; unchanged: number };

export interface MemoryReport {
  new: number;
  replaced: number;
  unchanged: number;
  removed: number;
  /** Messages that were dropped or shortened because they repeat what an earlier prompt of this memory contained. */
  echoes: string[];
  /** The ids of the messages that moved to long-term memory, by batch. */
  flushed: string[][];
}

export interface SessionInfo {
  session: string;
  messages: number;
  /** Messages that are in the buffer. */
  buffered: number;
  batches: number;
  last: number;
}

/** The messages for a model, and what became of what had no room. */
export interface Prompt {
  messages: Message[];
  tokens: number;
  over: number | null;
  shortened: unknown[];
  dropped: unknown[];
  failed: unknown[];
  left_out: unknown[];
  sections: { name: string; tokens: number }[];
  recalled: { block: string; id: string; score: number }[];
}

export interface Document<T = unknown> {
  namespace: string;
  key: string;
  value: T;
  created_at: string;
  updated_at: string;
  expires_at: string | null;
  /** How well it answers the query. Null without a query. */
  score: number | null;
  /** With `sources: true`, the ids of the messages of which a model made it. */
  sources?: string[];
}

export interface Block {
  name: string;
  /** Null: all sessions share it. */
  session: string | null;
  state: unknown;
  revision: number;
}

/** What was forgotten, linked to the receipt before it by hashes. */
export type Receipt = Record<string, unknown>;
/** All receipts, and whether they are sound. */
export type Audit = Record<string, unknown>;
