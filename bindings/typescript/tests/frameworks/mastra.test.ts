/** Mastra's memory storage, compared with the one that it keeps in memory. Its own storage tests are not on npm. */

import type { MastraDBMessage } from "@mastra/core/memory";
import { InMemoryStore, type MemoryStorage } from "@mastra/core/storage";
import { MnemonMemory } from "mnemon-engine/mastra";
import { describe, expect, it } from "vitest";

import { serve } from "./serve.js";

const served = serve();
let stores = 0;
const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 12, minute));

function message(id: string, minute: number, threadId: string, resourceId = "ada", metadata?: Record<string, unknown>): MastraDBMessage {
  const content = { format: 2 as const, parts: [{ type: "text" as const, text: `Message ${id}` }], ...(metadata && { metadata }) };
  return { id, role: minute % 2 ? "assistant" : "user", createdAt: at(minute), threadId, resourceId, type: "v2", content };
}

/** Ours and Mastra's, each with three threads. */
async function filled(): Promise<[MnemonMemory, MemoryStorage]> {
  const theirs = (await new InMemoryStore().getStore("memory"))!;
  const ours = new MnemonMemory(served.mnemon.namespace(`mastra/${stores++}`));
  for (const store of [ours, theirs]) {
    for (const [minute, id] of ["t1", "t2", "t/3"].entries()) {
      const metadata = { topic: minute === 1 ? "sport" : "work", "n": minute };
      await store.saveThread({ thread: { id, title: `Thread ${id}`, resourceId: minute === 2 ? "bo" : "ada", createdAt: at(9 - minute), updatedAt: at(minute), metadata } });
    }
    const messages = Array.from({ length: 12 }, (_, minute) => message(`m${minute}`, minute, minute < 8 ? "t1" : "t2", "ada", { even: minute % 2 === 0 }));
    await store.saveMessages({ messages: [...messages.slice(6), ...messages.slice(0, 6)] });
    await store.saveMessages({ messages: [message("b1", 30, "t/3", "bo")] });
  }
  return [ours, theirs];
}

async function same(read: (store: MemoryStorage) => Promise<unknown>): Promise<void> {
  const [ours, theirs] = await filled();
  expect(await read(ours)).toEqual(await read(theirs));
}

const threads = (store: MemoryStorage) => store.listThreads({ perPage: false, orderBy: { field: "createdAt", direction: "ASC" } })
  .then((found) => found.threads.map(({ updatedAt: _, ...thread }) => thread));

describe("MnemonMemory reads as Mastra's own store does", () => {
  it.each([
    {}, { perPage: 3 }, { perPage: 3, page: 2 }, { perPage: 3, page: 9 }, { perPage: 0 }, { perPage: false as const }, { orderBy: { direction: "DESC" as const }, perPage: 5 },
    { filter: { dateRange: { start: at(2), end: at(4) } } }, { filter: { dateRange: { start: at(2), startExclusive: true } } },
    { filter: { metadata: { even: true } }, perPage: 2 }, { resourceId: "bo" },
    { perPage: 1, include: [{ id: "m5", withPreviousMessages: 2, withNextMessages: 1 }] }, { perPage: 0, include: [{ id: "m9", withPreviousMessages: 5 }] },
    { perPage: 1, include: [{ id: "b1" }], resourceId: "ada" }, { perPage: 1, include: [{ id: "none" }] },
  ])("listMessages %j", (options) => same(async (store) => {
    const { hasMore, ...found } = await store.listMessages({ threadId: "t1", ...options });
    return "include" in options || options.perPage === 0 ? found.messages : { hasMore, ...found };
  }));

  it("listMessages of several threads, of none, and with wrong pages", async () => {
    await same((store) => store.listMessages({ threadId: ["t1", "t2", "t1", "none"] }));
    const [ours] = await filled();
    await expect(ours.listMessages({ threadId: " " })).rejects.toThrow("threadId");
    await expect(ours.listMessages({ threadId: "t1", page: -1 })).rejects.toThrow();
  });

  it("listMessagesByResourceId and listMessagesById", async () => {
    await same((store) => store.listMessagesByResourceId({ resourceId: "ada", perPage: 10 }));
    await same((store) => store.listMessagesById({ messageIds: ["m3", "none", "b1"] }));
  });

  it.each([
    {}, { perPage: 2 }, { perPage: 1, page: 1 }, { filter: { resourceId: "ada" } }, { filter: { metadata: { topic: "sport" } } },
    { filter: { metadata: { topic: "work", n: 2 } } }, { filter: { metadata: { topic: null } } }, { orderBy: { field: "createdAt" as const, direction: "ASC" as const } },
  ])("listThreads %j", (options) => same(async (store) => {
    const { threads, ...rest } = await store.listThreads({ orderBy: { field: "createdAt", direction: "DESC" }, ...options });
    return { ids: threads.map(({ id }) => id), ...rest };
  }));
});

describe("MnemonMemory changes as Mastra's own store does", () => {
  const changes: [string, (store: MemoryStorage) => Promise<unknown>][] = [
    ["updateThread", async (store) => {
      await store.updateThread({ id: "t1", metadata: { extra: 1 } });
      await store.updateThread({ id: "t1", title: "New" });
    }],
    ["deleteThread", async (store) => {
      await store.deleteThread({ threadId: "t1" });
      await store.deleteThread({ threadId: "none" });
    }],
    ["updateMessages", (store) => store.updateMessages({
      messages: [
        { id: "m1", content: { metadata: { seen: true } } as never },
        { id: "m2", threadId: "t2" },
        { id: "m3", content: { content: "new", parts: [{ type: "text", text: "new" }] } as never },
        { id: "none", role: "user" },
      ],
    })],
    ["deleteMessages", (store) => store.deleteMessages(["m1", "m9", "none"])],
    ["updateThreadResourceId", (store) => store.updateThreadResourceId({ threadId: "t1", resourceId: "bo" })],
  ];
  it.each(changes)("%s", (_, change) => same(async (store) => {
    await change(store);
    const all = await Promise.all(["t1", "t2", "t/3"].map((threadId) => store.listMessages({ threadId, perPage: false })));
    return [await threads(store), all, await store.getThreadById({ threadId: "t1" }).then((thread) => thread?.title ?? null)];
  }));

  it("cloneThread", () => same(async (store) => {
    const { thread, clonedMessages } = await store.cloneThread({ sourceThreadId: "t1", newThreadId: "copy", options: { messageLimit: 2 }, metadata: { a: 1 } });
    await expect(store.cloneThread({ sourceThreadId: "t1", newThreadId: "copy" })).rejects.toThrow("exists");
    return [thread.title, thread.resourceId, Object.keys(thread.metadata ?? {}), clonedMessages.map(({ content, threadId, createdAt }) => [content, threadId, createdAt])];
  }));

  it("resources", () => same(async (store) => {
    await store.updateResource({ resourceId: "ada", workingMemory: "# Ada" });
    await store.updateResource({ resourceId: "ada", metadata: { a: 1 } });
    const { createdAt: _, updatedAt: __, ...resource } = (await store.getResourceById({ resourceId: "ada" }))!;
    return [resource, await store.getResourceById({ resourceId: "none" })];
  }));
});

it("messages are found by recalls, and their threads change with them", async () => {
  const [ours] = await filled();
  const { hits } = await ours.namespace.recall("Message m3", { k: 1, filter: { "mastra.resourceId": "ada" } });
  expect(hits[0]?.id).toBe("m3");
  expect((await ours.getThreadById({ threadId: "t1" }))!.updatedAt.getTime()).toBeGreaterThan(at(0).getTime());
  await ours.dangerouslyClearAll();
  expect((await ours.listThreads({})).total).toBe(0);
  expect((await ours.listMessages({ threadId: "t1" })).total).toBe(0);
});

it("reads the last messages alone, where no total is asked for", async () => {
  const [ours, theirs] = await filled();
  const messages = Array.from({ length: 5 }, (_, minute) => message(`n${minute}`, minute, "new"));
  for (const store of [ours, theirs]) await store.saveMessages({ messages });
  served.requests.length = 0;
  for (const [perPage, page] of [[2, 0], [2, 1], [2, 2], [4, 1], [5, 0], [0, 0]] as const) {
    const options = { threadId: "new", resourceId: "ada", perPage, page, orderBy: { field: "createdAt", direction: "DESC" }, includeTotal: false } as const;
    const [{ total: _, ...found }, { total: __, ...expected }] = [await ours.listMessages(options), await theirs.listMessages(options)];
    expect(found).toEqual(expected);
  }
  // Another request finds that there are no more, three times.
  expect(served.requests.length).toBe(6 + 3);
  // What another program said in the thread is of no resource, and does not hide what is.
  await ours.namespace.put([1, 2, 3].map((at) => ({ role: "user" as const, content: `Other ${at}`, session: "new", created_at: "2027-01-01T00:00:00Z" })));
  const newest = { threadId: "new", perPage: 2, orderBy: { field: "createdAt", direction: "DESC" }, includeTotal: false } as const;
  expect((await ours.listMessages({ ...newest, resourceId: "ada" })).messages.map(({ id }) => id)).toEqual(["n4", "n3"]);
  expect((await ours.listMessages(newest)).messages.length).toBe(2);
});

it("loses no change of a resource that is made meanwhile, and lists a message once", async () => {
  const [ours, theirs] = await filled();
  for (const store of [ours, theirs]) {
    await Promise.all([
      store.updateResource({ resourceId: "ada", workingMemory: "She rows." }),
      ...[1, 2, 3].map((at) => store.updateResource({ resourceId: "ada", metadata: { [`${at}`]: at } })),
    ]);
  }
  const read = async (store: MemoryStorage) => {
    const { workingMemory, metadata } = (await store.getResourceById({ resourceId: "ada" }))!;
    return { workingMemory, metadata, messages: (await store.listMessagesById({ messageIds: ["m1", "m1", "m0"] })).messages.map(({ id }) => id) };
  };
  expect(await read(ours)).toEqual(await read(theirs));
});

it("changes messages and threads in one commit, and loses no change of a thread that is made meanwhile", async () => {
  const [ours] = await filled();
  await ours.saveMessages({ messages: [] });
  await ours.deleteMessages([]);
  const before = (await ours.getThreadById({ threadId: "t1" }))!;
  await Promise.all([
    ours.updateThread({ id: "t1", title: "Meanwhile" }),
    ...Array.from({ length: 5 }, (_, at) => ours.saveMessages({ messages: [message(`x${at}`, 40 + at, "t1")] })),
    ours.updateThread({ id: "t1", metadata: { topic: "rowing" } }),
  ]);
  const thread = (await ours.getThreadById({ threadId: "t1" }))!;
  expect([thread.title, thread.metadata]).toEqual(["Meanwhile", { topic: "rowing", n: 0 }]);
  expect(thread.updatedAt.getTime()).toBeGreaterThanOrEqual(before.updatedAt.getTime() + 7);
  served.requests.length = 0;
  await ours.saveMessages({ messages: [message("y1", 50, "t1"), message("y2", 51, "t2")] });
  expect(served.requests).toEqual(["POST /v1/batch", "POST /v1/batch"]);
  await Promise.allSettled([ours.copyThread({ sourceThreadId: "t1", newThreadId: "copy" }), ours.copyThread({ sourceThreadId: "t1", newThreadId: "copy" })]);
  expect((await ours.listMessages({ threadId: "copy" })).total).toBe((await ours.listMessages({ threadId: "t1" })).total);
});

it("refuses a retention policy, which Mastra's own class would ignore", async () => {
  const [ours] = await filled();
  await expect(ours.prune({})).resolves.toEqual([]);
  await expect(ours.prune({ messages: { maxAge: "1d" } } as Parameters<MemoryStorage["prune"]>[0])).rejects.toThrow("setTtl");
});
