/** LangChain's vector store, retriever and history. Its standard tests for JavaScript are not on npm. */

import { Document } from "@langchain/core/documents";
import { Embeddings } from "@langchain/core/embeddings";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { RunnableLambda, RunnableWithMessageHistory } from "@langchain/core/runnables";
import { InvalidArgumentError } from "mnemon-engine";
import { MnemonChatMessageHistory, MnemonRetriever, MnemonVectorStore } from "mnemon-engine/langchain";
import { describe, expect, it } from "vitest";

import { serve } from "./serve.js";

const served = serve();
const given = serve("--model", "given:topics:3");
let names = 0;
const newNamespace = ({ mnemon } = served) => mnemon.namespace(`langchain/${names++}`);
const ids = (documents: Document[]) => documents.map(({ id }) => id);

const DOCUMENTS = [
  new Document({ id: "row", pageContent: "Ada goes rowing.", metadata: { price: 5, tags: ["sport"] } }),
  new Document({ id: "bake", pageContent: "Bo bakes bread.", metadata: { price: 20 } }),
  new Document({ id: "k/\u00e9".repeat(300), pageContent: "Cy plays the violin.", metadata: {} }),
];

describe("MnemonVectorStore", () => {
  it("finds what was added just before, with its id and metadata", async () => {
    const store = new MnemonVectorStore(newNamespace());
    expect(await store.similaritySearch("boat")).toEqual([]);
    expect(await store.addDocuments(DOCUMENTS)).toEqual(ids(DOCUMENTS));
    expect(await store.similaritySearch("who is in a boat?", 1)).toEqual([DOCUMENTS[0]]);
    expect(await store.similaritySearch("music", 1)).toEqual([DOCUMENTS[2]]);
    const [[, best], [, second]] = (await store.similaritySearchWithScore("who is in a boat?", 2)) as [[Document, number], [Document, number]];
    expect(best).toBeGreaterThan(second);
  });

  it("refuses a filter that is a function", async () => {
    const store = new MnemonVectorStore(newNamespace());
    await store.addDocuments([new Document({ pageContent: "rowing" })]);
    await expect(store.similaritySearch("rowing", 1, (() => false) as never)).rejects.toThrow("no function");
  });

  it("filters by metadata, also as a retriever", async () => {
    const store = new MnemonVectorStore(newNamespace());
    await store.addDocuments(DOCUMENTS);
    expect(ids(await store.similaritySearch("bread", 4, { price: { $lt: 10 } }))).toEqual(["row"]);
    expect(ids(await store.asRetriever({ k: 4, filter: { price: { $gte: 10 } } }).invoke("rowing"))).toEqual(["bake"]);
  });

  it("replaces documents of the same id, and deletes some or all", async () => {
    const store = new MnemonVectorStore(newNamespace());
    await store.namespace.documents.put("other", { text: "Ada goes rowing." });
    await store.addDocuments(DOCUMENTS);
    await store.addDocuments([new Document({ pageContent: "Ada sings.", metadata: {} })], { ids: ["row"] });
    expect(await store.similaritySearch("Ada", 1)).toMatchObject([{ id: "row", pageContent: "Ada sings." }]);
    expect(await store.addDocuments([new Document({ pageContent: "New." })])).toMatchObject([expect.stringMatching(/^[0-9a-f]{32}$/)]);
    await store.delete({ ids: ["row", "none"] });
    expect(ids(await store.similaritySearch("Ada", 9))).not.toContain("row");
    await store.delete({ deleteAll: true });
    expect(await store.similaritySearch("bread", 9)).toEqual([]);
    expect(await store.namespace.documents.get("other")).not.toBeNull();
    await expect(store.delete()).rejects.toThrow("deleteAll");
  });

  it("adds and deletes in one request each, or in several where they are too many", async () => {
    const store = new MnemonVectorStore(newNamespace());
    const many = Array.from({ length: 1001 }, (_, at) => new Document({ id: `${at}`, pageContent: `Document ${at}` }));
    const requests = async (work: Promise<unknown>) => {
      served.requests.length = 0;
      await work;
      return served.requests.length;
    };
    expect(await requests(store.addDocuments([]))).toBe(0);
    expect(await requests(store.addDocuments(many.slice(0, 1000)))).toBe(1);
    expect(await requests(store.addDocuments(many))).toBe(2);
    expect(await requests(store.delete({ ids: ids(many.slice(0, 999)) as string[] }))).toBe(1);
    expect(ids(await store.similaritySearch("document", 9)).sort()).toEqual(["1000", "999"]);
    const large = Array.from({ length: 20 }, (_, at) => new Document({ id: `${at}`, pageContent: "\u20ac".repeat(200_000) }));
    expect(await requests(store.addDocuments(large))).toBe(2);
    const refused = [new Document({ id: "a", pageContent: "fine" }), new Document({ id: "b", pageContent: "x".repeat(2_000_000) })];
    await expect(store.addDocuments(refused)).rejects.toThrow(InvalidArgumentError);
    expect(await store.namespace.documents.get('"a"')).toBeNull();
  }, 120_000);

  it("refuses vectors where the server has a model", async () => {
    const store = new MnemonVectorStore(newNamespace());
    await expect(store.addVectors([[1, 0, 0]], DOCUMENTS.slice(0, 1))).rejects.toThrow("given");
    await expect(store.embeddings.embedQuery("text")).rejects.toThrow("given:NAME:DIM");
    await expect(store.maxMarginalRelevanceSearch("boat", { k: 1 })).rejects.toThrow("given:NAME:DIM");
    await expect(new MnemonVectorStore(newNamespace(), new Topics({})).addDocuments(DOCUMENTS)).rejects.toThrow("given");
  });
});

/** Water, food and music: how often a text speaks of each. */
class Topics extends Embeddings {
  override async embedQuery(text: string): Promise<number[]> {
    return [/boat|row|river/gi, /bread|bake|oven/gi, /violin|music|song/gi].map((words) => 0.1 + (text.match(words)?.length ?? 0));
  }

  override async embedDocuments(texts: string[]): Promise<number[][]> {
    return Promise.all(texts.map((text) => this.embedQuery(text)));
  }
}

describe("MnemonVectorStore with embeddings", () => {
  const newStore = () => new MnemonVectorStore(newNamespace(given), new Topics({}));

  it("finds by the vectors of its embeddings", async () => {
    const store = newStore();
    await store.addDocuments(DOCUMENTS);
    expect(await store.similaritySearch("a boat on the river", 1)).toEqual([DOCUMENTS[0]]);
    expect(ids(await store.asRetriever(1).invoke("a song"))).toEqual([DOCUMENTS[2]!.id]);
    const [[found, cosine]] = (await store.similaritySearchVectorWithScore([0, 1, 0], 1)) as [[Document, number]];
    expect([found, cosine]).toEqual([DOCUMENTS[1], expect.closeTo(2.1 / Math.hypot(2.1, 0.1, 0.1), 3)]);
    expect(ids((await store.similaritySearchVectorWithScore([0, 1, 0], 3, { price: { $lt: 10 } })).map(([document]) => document))).toEqual(["row"]);
  });

  it("takes vectors, also of documents without text, and no wrong ones", async () => {
    const store = newStore();
    const picture = new Document({ id: "picture", pageContent: "", metadata: { kind: "picture" } });
    expect(await store.addVectors([[1, 0, 0], [0, 0, 1]], [DOCUMENTS[1]!, picture])).toEqual(["bake", "picture"]);
    expect((await store.similaritySearchVectorWithScore([0, 0, 1], 1))[0]?.[0]).toEqual(picture);
    await store.addVectors([[0, 0, -1]], [picture], { ids: ["picture"] });
    expect((await store.similaritySearchVectorWithScore([1, 0, 0], 1))[0]?.[0]).toEqual(DOCUMENTS[1]);
    await expect(store.addVectors([[1, 0, 0]], DOCUMENTS)).rejects.toThrow("not 1 for 3");
    await expect(store.addVectors([[1, 0]], [picture])).rejects.toThrow(InvalidArgumentError);
    await store.delete({ ids: ["bake"] });
    expect(ids(await store.similaritySearch("bread", 4))).toEqual(["picture"]);
  });

  it("finds what is close to the query and far from each other", async () => {
    const texts = ["A boat, a river, a song.", "A river, a boat, and songs.", "A boat with an oven.", "A violin."];
    const store = await MnemonVectorStore.fromTexts(texts, texts.map((_, n) => ({ n })), new Topics({}), { namespace: newNamespace(given) });
    await new MnemonVectorStore(store.namespace).addDocuments([new Document({ pageContent: "A boat without a vector." })]);
    const chosen = async (lambda: number) => (await store.maxMarginalRelevanceSearch("a boat on a river", { k: 2, fetchK: 5, lambda })).map(({ metadata }) => metadata["n"]);
    expect((await chosen(1)).sort()).toEqual([0, 1]);
    expect(await chosen(0.2)).toContain(2);
    expect(await store.asRetriever({ searchType: "mmr", k: 3, filter: { n: { $gte: 2 } } }).invoke("boat")).toHaveLength(2);
  });

  it("is made of texts and of documents", async () => {
    const texts = await MnemonVectorStore.fromTexts(["Rowing.", "Baking."], { by: "all" }, new Topics({}), { namespace: newNamespace(given) });
    expect(await texts.similaritySearch("oven", 1)).toMatchObject([{ pageContent: "Baking.", metadata: { by: "all" } }]);
    const documents = await MnemonVectorStore.fromDocuments(DOCUMENTS, undefined, { namespace: newNamespace() });
    expect(ids(await documents.similaritySearch("who is in a boat?", 1))).toEqual(["row"]);
  });
});

describe("MnemonRetriever", () => {
  it("finds messages with their fields", async () => {
    const namespace = newNamespace();
    await namespace.put([
      { role: "user", content: "I go rowing.", session: "s", metadata: { mood: "good" } },
      { role: "assistant", content: "Fine.", session: "s" },
    ], { flush: true });
    const found = await new MnemonRetriever({ namespace, options: { k: 1 } }).invoke("who is in a boat?");
    expect(found).toMatchObject([{ pageContent: "I go rowing.", metadata: { session: "s", role: "user", mood: "good", score: expect.any(Number) } }]);
  });
});

describe("MnemonChatMessageHistory", () => {
  const messages = [
    new SystemMessage("Be short."),
    new HumanMessage({ content: "What time is it?", name: "ada", id: "m1" }),
    new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "clock", args: { zone: "UTC" }, type: "tool_call" }] }),
    new ToolMessage({ content: "12:00", tool_call_id: "c1", name: "clock", artifact: { raw: 12 } }),
    new AIMessage({ content: [{ type: "text", text: "It is " }, { type: "text", text: "noon." }], response_metadata: { model: "m" } }),
    new HumanMessage({ content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }] }),
  ];

  it("keeps messages of every kind as they are", async () => {
    const history = new MnemonChatMessageHistory(newNamespace(), "s");
    await history.addMessages([]);
    await history.addMessages(messages.slice(0, 4));
    for (const message of messages.slice(4)) await history.addMessage(message);
    expect((await history.getMessages()).map((message) => message.toDict())).toEqual(messages.map((message) => message.toDict()));
    await history.clear();
    await history.clear();
    expect(await history.getMessages()).toEqual([]);
    await history.addUserMessage("Hello");
    await history.addAIMessage("Hi");
    expect((await history.getMessages()).map(({ type, text }) => [type, text])).toEqual([["human", "Hello"], ["ai", "Hi"]]);
  });

  it("reads what another program stored", async () => {
    const history = new MnemonChatMessageHistory(newNamespace(), "s");
    await history.namespace.put([
      { role: "user", content: "What time is it?", session: "s" },
      { role: "assistant", session: "s", content: [{ type: "text", text: "I look." }, { type: "tool_call", id: "c1", name: "clock", arguments: { zone: "UTC" } }] },
      { role: "tool", session: "s", content: [{ type: "tool_result", id: "c1", content: "12:00" }] },
    ]);
    const [human, ai, result] = await history.getMessages();
    expect(human).toMatchObject({ content: "What time is it?" });
    expect(ai).toMatchObject({ content: "I look.", tool_calls: [{ id: "c1", name: "clock", args: { zone: "UTC" } }] });
    expect(result).toMatchObject({ content: "12:00", tool_call_id: "c1" });
  });

  it("is the memory of a chain", async () => {
    const namespace = newNamespace();
    const chain = new RunnableWithMessageHistory({
      runnable: RunnableLambda.from((given: { input: string; history?: unknown[] }) => new AIMessage(`${given.history?.length}: ${given.input}`)),
      getMessageHistory: (session: string) => new MnemonChatMessageHistory(namespace, session),
      inputMessagesKey: "input",
      historyMessagesKey: "history",
    });
    const say = async (input: string) => ((await chain.invoke({ input }, { configurable: { sessionId: "s" } })) as AIMessage).text;
    expect([await say("One"), await say("Two")]).toEqual(["0: One", "2: Two"]);
  });
});
