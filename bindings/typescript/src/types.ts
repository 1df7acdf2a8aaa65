/** The types of requests and answers, by their names in docs/openapi.json, of which they are made. Options lack what a method takes by itself. */

import type { components, operations } from "./schema.js";

type Schemas = components["schemas"];

/**
 * Takes any object where the description says that any is taken. Without this an object of an interface, such as those of OpenAI's client, is
 * refused: an interface has no index signature.
 */
type AnyObjects<T> = unknown extends T ? T
  : T extends readonly (infer Item)[] ? readonly AnyObjects<Item>[]
  : T extends object ? (string extends keyof T ? object : { [Key in keyof T]: AnyObjects<T[Key]> })
  : T;

export type Message = Schemas["Message"];
export type MessageInput = AnyObjects<Schemas["MessageInput"]>;
/** A message: a text, which the user says; an object of OpenAI's chat format; or the fields of `Message`. */
export type MessageLike = string | MessageInput;
export type Messages = MessageLike | readonly MessageLike[];
export type MessageVersion = Schemas["MessageVersion"];
export type PutAnswer = Schemas["PutAnswer"];

export type ImportOptions = NonNullable<operations["post_import"]["parameters"]["query"]>;
/** What an import did, and what it took the files for. */
export type ImportReport = Schemas["ImportReport"];

export type Filter = Schemas["Filter"];
export type RecallOptions = Omit<Schemas["RecallOptions"], "query">;
export type RecallInOptions = Omit<Schemas["RecallInOptions"], "query">;
export type RecallAnswer = Schemas["RecallAnswer"];
export type Hit = Schemas["Hit"];
export type Why = Schemas["Why"];

export type SessionInfo = Schemas["SessionInfo"];
export type MemoryReport = Schemas["MemoryReport"];
export type AssembleOptions = Omit<Schemas["Assemble"], "prompt">;
export type Prompt = Schemas["Prompt"];
export type RefineOptions = Omit<Schemas["Refine"], "block">;
export type Refined = Schemas["Refined"];
export type Block = Schemas["Block"];

/** A document whose value is of a type of yours. */
export type Document<T = unknown> = Schemas["Document"] & { value: T };
/** A document that a search found. */
export type FoundDocument<T = unknown> = Schemas["FoundDocument"] & { value: T };
export type DocumentOptions = Omit<Schemas["DocumentPut"], "value">;
export type SearchOptions = Omit<Schemas["DocumentSearch"], "query">;

type PutMessages = Extract<Schemas["BatchOperation"], { op: "put_messages" }>;
/** What a batch does: operations on documents and messages of any namespaces. */
export type BatchOperation = AnyObjects<Exclude<Schemas["BatchOperation"], PutMessages>> | (Omit<PutMessages, "messages"> & { messages: Messages });
type Outcome<Fields> = Extract<Schemas["BatchOutcome"], Fields>;
interface Outcomes {
  get: Outcome<{ document: unknown }>;
  search: Outcome<{ documents: unknown }>;
  put: object;
  delete: Outcome<{ deleted: boolean }>;
  expect: object;
  put_messages: PutAnswer;
  delete_messages: Outcome<{ deleted: number }>;
  delete_session: Outcome<{ deleted: boolean }>;
}
/** The outcome of each operation, in their order. */
export type BatchAnswer<Operations extends readonly BatchOperation[]> = { -readonly [At in keyof Operations]: Outcomes[Operations[At]["op"]] };

export type ForgetRequest = Schemas["ForgetRequest"];
/** What was forgotten, linked to the receipt before it by hashes. */
export type Receipt = Schemas["Receipt"];
/** All receipts, and whether they are sound. */
export type Audit = Omit<Schemas["Audit"], "next">;

export type NamespaceInfo = Schemas["NamespaceInfo"];
export type NamespacesOptions = Omit<NonNullable<operations["get_namespaces"]["parameters"]["query"]>, "cursor">;
export type NamespaceDetails = Schemas["NamespaceDetails"];
export type MemoryToolInput = Schemas["MemoryToolInput"];
export type MemoryToolAnswer = Schemas["MemoryToolAnswer"];
export type MemoryMap = Schemas["MemoryMap"];
export type FormingSession = Schemas["FormingSession"];
export type Formation = Omit<Schemas["Formation"], "next">;

export type Stats = Schemas["Stats"];
export type FlushReport = Schemas["FlushReport"];
export type LinkReport = Schemas["LinkReport"];
export type ReindexOptions = Schemas["ReindexRequest"];
export type ReindexEvent = Schemas["ReindexEvent"];
export type ReindexProgress = Schemas["ReindexProgress"];
export type ReindexReport = Schemas["ReindexReport"];
