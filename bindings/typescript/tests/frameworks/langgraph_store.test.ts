/** LangGraph's store, compared with `InMemoryStore` where the two agree. */

import { InMemoryStore, type Operation } from "@langchain/langgraph-checkpoint";
import { MnemonStore } from "mnemon-engine/langgraph";
import { describe, expect, it } from "vitest";

import { serve } from "./serve.js";

const served = serve();
let stores = 0;
const newStore = () => new MnemonStore(served.mnemon, { prefix: ["store", `${stores++}`] });

const ITEMS: [string[], string, Record<string, unknown>][] = [
  [["users", "ada"], "1", { text: "rows on Thursdays", age: 36, tags: ["sport"], address: { city: "London" } }],
  [["users", "ada", "work"], "1", { text: "writes programs", age: 36 }],
  [["users", "a/d%2Fa"], "k/e.y\u00e9", { text: "a slash", age: 7, "a.b": 1 }],
  [["users", "line\nfeed\\"], "2", { text: "a line feed", age: null }],
  [["groups", "ada"], "1", { text: "meets at noon", age: 90 }],
];

async function filled() {
  const both = [newStore(), new InMemoryStore()] as const;
  for (const store of both) for (const item of ITEMS) await store.put(...item);
  return both;
}

const plain = (items: { namespace: string[]; key: string; value: unknown }[]) =>
  items.map(({ namespace, key, value }) => ({ namespace, key, value })).sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));

describe("MnemonStore", () => {
  it("returns, replaces and deletes items", async () => {
    const store = newStore();
    await store.put(["a"], "k", { n: 1 });
    const first = await store.get(["a"], "k");
    expect(first).toMatchObject({ namespace: ["a"], key: "k", value: { n: 1 } });
    await store.put(["a"], "k", { n: 2 });
    const second = await store.get(["a"], "k");
    expect(second?.value).toEqual({ n: 2 });
    expect(second?.createdAt).toEqual(first?.createdAt);
    expect(second?.updatedAt.getTime()).toBeGreaterThanOrEqual(first!.updatedAt.getTime());
    await store.delete(["a"], "k");
    await store.delete(["a"], "k");
    expect(await store.get(["a"], "k")).toBeNull();
  });

  it.each<[string[], object]>([
    [["users"], {}],
    [["users", "ada"], {}],
    [["users", "ad"], {}],
    [["users", "a/d%2Fa"], {}],
    [["users"], { filter: { age: 36 } }],
    [["users"], { filter: { age: { $gt: 7 } } }],
    [["users"], { filter: { age: { $gte: 7, $lt: 36 } } }],
    [["users"], { filter: { text: { $ne: "a slash" } } }],
    [["users"], { filter: { "a.b": 1 } }],
    [["users"], { filter: { age: 36, text: "writes programs" } }],
    [["none"], {}],
  ])("finds below %j with %j what InMemoryStore does", async (prefix, options) => {
    const [ours, theirs] = await filled();
    expect(plain(await ours.search(prefix, options))).toEqual(plain(await theirs.search(prefix, options)));
  });

  it.each([
    {}, { prefix: ["users"] }, { prefix: ["*", "ada"] }, { suffix: ["ada"] }, { prefix: ["users"], suffix: ["work"] }, { maxDepth: 2 }, { maxDepth: 1 },
    { suffix: ["*", "ada"] }, { prefix: ["none"] },
  ])("lists namespaces with %j as InMemoryStore does", async (options) => {
    const [ours, theirs] = await filled();
    const names = (found: string[][]) => found.map((labels) => JSON.stringify(labels)).sort();
    expect(names(await ours.listNamespaces(options))).toEqual(names(await theirs.listNamespaces(options)));
  });

  it("refuses a BigInt, and gives back a date as text", async () => {
    const store = newStore();
    const when = new Date(7);
    await expect(store.put(["n"], "k", { chat: { id: 7n } })).rejects.toThrow(/\["chat"\]\["id"\] is a BigInt.*String\(id\)/);
    await store.put(["n"], "k", { when, share: NaN });
    expect((await store.get(["n"], "k"))?.value).toEqual({ when: when.toISOString(), share: null });
  });

  it("gives pages", async () => {
    const store = newStore();
    for (let at = 0; at < 5; at++) await store.put(["n", `${at}`], "k", { at });
    const pages = await Promise.all([0, 2, 4].map((offset) => store.search(["n"], { limit: 2, offset })));
    expect(pages.map((page) => page.map(({ value }) => value["at"]))).toEqual([[4, 3], [2, 1], [0]]);
    expect([...(await store.listNamespaces({ limit: 3 })), ...(await store.listNamespaces({ limit: 3, offset: 3 }))]).toHaveLength(5);
  });

  it("finds by meaning what was put just before, by the fields that are indexed", async () => {
    const store = new MnemonStore(served.mnemon, { prefix: ["store", `${stores++}`], fields: ["text"] });
    await store.put(["m"], "row", { text: "Ada goes rowing.", note: "violin" });
    await store.put(["m"], "cook", { text: "Bo bakes bread.", note: "violin" });
    await store.put(["m"], "hidden", { text: "Ada goes rowing too." }, false);
    await store.put(["m"], "note", { text: "nothing", note: "Cy plays an instrument." }, ["note"]);
    const found = async (query: string) => (await store.search(["m"], { query })).map(({ key }) => key);
    expect((await found("who is in a boat?"))[0]).toBe("row");
    expect((await found("who makes music?"))[0]).toBe("note");
    expect(await found("Ada goes rowing too.")).not.toContain("hidden");
    expect((await store.search(["m"], { query: "boat", limit: 1 }))[0]?.score).toBeTypeOf("number");
  });

  it.each([["no index", { text: "sold" }, false], ["no fields", { text: "sold" }, []], ["no such field", { note: "sold" }, undefined]] as const)(
    "does not find an item by words that it no longer has: put again with %s", async (_, value, index) => {
      const store = new MnemonStore(served.mnemon, { prefix: ["store", `${stores++}`], fields: ["text"] });
      await store.put(["m"], "hobby", { text: "Ada rides her bicycle." });
      await store.put(["m"], "music", { text: "Ada plays the piano." });
      const found = async () => (await store.search(["m"], { query: "bicycle" })).map(({ key }) => key);
      expect((await found())[0]).toBe("hobby");
      await store.put(["m"], "hobby", value, index as false | undefined);
      expect(await found()).not.toContain("hobby");
      expect((await store.get(["m"], "hobby"))?.value).toEqual(value);
    },
  );

  it("reads before it changes in a batch, and keeps the last of several puts", async () => {
    const store = newStore();
    await store.put(["b"], "k", { n: 1 });
    const [before, , , found] = await store.batch([
      { namespace: ["b"], key: "k" },
      { namespace: ["b"], key: "k", value: { n: 2 } },
      { namespace: ["b"], key: "k", value: { n: 3 } },
      { namespacePrefix: ["b"], limit: 10 },
    ] as Operation[]);
    expect([before, found]).toMatchObject([{ value: { n: 1 } }, [{ value: { n: 1 } }]]);
    expect((await store.get(["b"], "k"))?.value).toEqual({ n: 3 });
  });

  it("makes a batch one request and one commit", async () => {
    const store = newStore();
    await store.put(["b"], "old", { n: 1 });
    served.requests.length = 0;
    const changes = [{ namespace: ["b"], key: "old", value: null }, { namespace: ["b"], key: ".", value: { n: 2 } }, { namespace: ["c"], key: "k", value: { n: 3 } }];
    expect(await store.batch([...changes, { namespace: ["b"], key: "old" }] as Operation[])).toMatchObject([undefined, undefined, undefined, { value: { n: 1 } }]);
    expect(served.requests).toEqual(["POST /v1/batch"]);
    expect(plain(await store.search([]))).toMatchObject([{ key: ".", value: { n: 2 } }, { key: "k", value: { n: 3 } }]);
    const refused = [{ namespace: ["b"], key: "new", value: { n: 4 } }, { namespace: ["b"], key: "k".repeat(600), value: { n: 5 } }];
    await expect(store.batch(refused as Operation[])).rejects.toThrow("512");
    expect(await store.get(["b"], "new")).toBeNull();
  });

  it("refuses what is no namespace", async () => {
    await expect(newStore().put([], "k", {})).rejects.toThrow();
    await expect(newStore().put(["a.b"], "k", {})).rejects.toThrow();
  });
});
