/**
 * What an adapter leaves to the framework's class above it: a method that does nothing there would lose something without a word. Each row
 * has all that is inherited, by what it does there, so that another version with another method fails here until somebody has looked.
 */

import { BaseListChatMessageHistory } from "@langchain/core/chat_history";
import { BaseRetriever } from "@langchain/core/retrievers";
import { VectorStore } from "@langchain/core/vectorstores";
import { BaseCheckpointSaver, BaseStore } from "@langchain/langgraph-checkpoint";
import { MemoryStorage } from "@mastra/core/storage";
import type { Session } from "@openai/agents-core";
import { MnemonChatMessageHistory, MnemonRetriever, MnemonVectorStore } from "mnemon-engine/langchain";
import { MnemonSaver, MnemonStore } from "mnemon-engine/langgraph";
import { MnemonMemory } from "mnemon-engine/mastra";
import { MnemonSession } from "mnemon-engine/openai-agents";
import { expect, it } from "vitest";

type Class = { prototype: object };
type Kind = "nothing" | "refuses" | "works";

/** What does nothing has its reason beside it. Refused: observational memory of Mastra. */
const ROWS: [Class, Class, Partial<Record<Kind, string>>][] = [
  [MnemonMemory, MemoryStorage, {
    nothing: "init" /* documents need no tables */,
    refuses: "clearObservationalMemory createReflectionGeneration getObservationalMemory getObservationalMemoryHistory initializeObservationalMemory "
      + "insertObservationalMemoryRecord setBufferingObservationFlag setBufferingReflectionFlag setObservingFlag setPendingMessageTokens "
      + "setReflectingFlag swapBufferedReflectionToActive swapBufferedToActive updateActiveObservations updateBufferedObservations "
      + "updateBufferedReflection updateObservationalMemoryConfig",
    works: "cloneThread deepMergeConfig parseOrderBy patchThread updateThreadMetadata updateThreadResourceId validateMetadataKeys "
      + "validatePagination validatePaginationInput",
  }],
  [MnemonStore, BaseStore, { nothing: "start stop" /* a client has nothing to start */, works: "delete get listNamespaces put search" }],
  [MnemonSaver, BaseCheckpointSaver, { works: "get getDeltaChannelHistory getNextVersion toJSON" }],
  [MnemonChatMessageHistory, BaseListChatMessageHistory, { works: "addAIMessage addUserMessage" }],
  [MnemonRetriever, BaseRetriever, { works: "invoke" }],
  [MnemonVectorStore, VectorStore, { works: "asRetriever" }],
];

/** Base classes of frameworks that have nothing of memories. */
const GENERAL = new Set(["Object", "Runnable", "Serializable", "MastraBase"]);

function kindOf(method: () => unknown): Kind {
  const source = String(method).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
  const body = source.slice(source.indexOf("{", source.indexOf(")")) + 1, source.lastIndexOf("}")).trim();
  if (/^(return\s*(\[\]|\{\}|null|undefined|void 0|false|true)?\s*;?)?$/.test(body)) return "nothing";
  return body.startsWith("throw ") ? "refuses" : "works";
}

/** The methods that a class has from those above it that are the framework's. */
function inherited(adapter: Class, base: Class): Partial<Record<Kind, string>> {
  const found: Partial<Record<Kind, string[]>> = {};
  const own = new Set<string>();
  let isTheirs = false;
  for (let proto: object = adapter.prototype; !(isTheirs && GENERAL.has(proto.constructor.name)); proto = Object.getPrototypeOf(proto) as object) {
    isTheirs ||= proto === base.prototype;
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(proto))) {
      if (typeof value !== "function" || name === "constructor" || name.startsWith("_") || own.has(name)) continue;
      own.add(name);
      if (isTheirs) (found[kindOf(value as () => unknown)] ??= []).push(name);
    }
  }
  return Object.fromEntries(Object.entries(found).map(([kind, names]) => [kind, names.sort().join(" ")]));
}

it.each(ROWS.map((row) => [(row[0] as unknown as { name: string }).name, row] as const))("%s leaves to the framework what is known", (_, [adapter, base, left]) => {
  expect(inherited(adapter, base)).toEqual(left);
});

/** A session is an interface: what is optional in it changes what other sessions would do, and ours keeps items as they are. */
const SESSION: Record<keyof Session, "ours" | "left out"> = {
  getSessionId: "ours", getItems: "ours", addItems: "ours", popItem: "ours", clearSession: "ours",
  prepareHistoryItemForModelInput: "left out", prepareHistoryItemsForPersistenceComparison: "left out",
  preserveReasoningItemIdsForPersistence: "left out", replaceHistoryWithCompaction: "left out",
};

it.each(Object.entries(SESSION))("MnemonSession.%s is %s", (method, whose) => {
  expect(method in MnemonSession.prototype).toBe(whose === "ours");
});
