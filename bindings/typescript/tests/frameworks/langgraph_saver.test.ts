/** LangGraph's validation suite on `MnemonSaver`, and what it does not ask. */

import { deltaChannelHistoryTests, specTest } from "@langchain/langgraph-checkpoint-validation";
import { emptyCheckpoint, INTERRUPT, JsonPlusSerializer, RESUME, type SerializerProtocol, uuid6 } from "@langchain/langgraph-checkpoint";
import { Annotation, Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";

import { InvalidArgumentError, Mnemon, MnemonError } from "mnemon-engine";
import { MnemonSaver } from "mnemon-engine/langgraph";
import { serve } from "./serve.js";

const served = serve();
let savers = 0;

/** A saver that sees none of what others stored. */
function newSaver(): MnemonSaver {
  return new MnemonSaver(served.mnemon, { prefix: ["saver", `${savers++}`] });
}

const initializer = { checkpointerName: "MnemonSaver", createCheckpointer: newSaver };
specTest(initializer);
deltaChannelHistoryTests(initializer);

const metadata = { source: "loop" as const, step: 0, parents: {} };
const thread = { configurable: { thread_id: "t/1", checkpoint_ns: "" } };

function checkpointOf(values: Record<string, unknown>) {
  return { ...emptyCheckpoint(), id: uuid6(0), channel_values: values };
}

it("sends one request for a checkpoint, whatever its length, and one for writes", async () => {
  const saver = newSaver();
  const count = async (work: Promise<unknown>) => {
    served.requests.length = 0;
    await work;
    return served.requests.length;
  };
  expect(await count(saver.put(thread, checkpointOf({ a: "short" }), metadata, {}))).toBe(1);
  let config = thread;
  expect(await count(saver.put(thread, checkpointOf({ a: "x".repeat(100_000) }), metadata, {}).then((put) => (config = put as typeof thread)))).toBe(1);
  expect(await count(saver.put(config, checkpointOf({ a: "\"".repeat(2_000_000) }), metadata, {}))).toBe(1);
  expect(await count(saver.putWrites(config, [["a", 1], ["b", 2]], "task"))).toBe(1);
  expect(await count(saver.getTuple(config))).toBe(3);
  expect(await count(saver.getTuple(config))).toBe(3);
});

it("stores a checkpoint with its parts or nothing of it", async () => {
  const saver = newSaver();
  const odd = { ...metadata, note: "x".repeat(2_000_000) };
  await expect(saver.put(thread, checkpointOf({ a: "x".repeat(100_000) }), odd, {})).rejects.toThrow(InvalidArgumentError);
  expect(await served.mnemon.namespaces({ prefix: `saver/${savers - 1}` }).toArray()).toEqual([]);
});

it("keeps a checkpoint that is more than a request takes, and shows none of one that is not whole", async () => {
  const large = checkpointOf({ a: "\u20ac".repeat(4_000_000) });
  let requests = 0;
  const stopping = new Mnemon({
    url: served.url,
    fetch: (request) => (++requests === 2 ? Promise.reject(new MnemonError("stopped")) : fetch(request)),
  });
  const saver = new MnemonSaver(stopping, { prefix: ["saver", `${savers++}`] });
  await expect(saver.put(thread, large, metadata, {})).rejects.toThrow("stopped");
  expect(await served.mnemon.namespaces({ prefix: `saver/${savers - 1}` }).toArray()).toMatchObject([{ namespace: expect.stringMatching(/data$/) }]);
  expect(await saver.getTuple(thread)).toBeUndefined();
  await saver.put(thread, large, metadata, {});
  expect((await saver.getTuple(thread))?.checkpoint).toEqual(large);
});

it("keeps texts of any length, and bytes", async () => {
  const saver = newSaver();
  const long = "\u20ac\u{1f600}\"\\\n\u0000".repeat(300_000);
  const values = { long, shifted: `x${long}`, bytes: new Uint8Array([0, 128, 255]), odd: "\ud800" };
  const config = await saver.put(thread, checkpointOf(values), metadata, {});
  await saver.putWrites(config, [["long", long]], "task");
  const tuple = await saver.getTuple(thread);
  expect(tuple?.checkpoint.channel_values).toEqual(values);
  expect(tuple?.pendingWrites).toEqual([["task", "long", long]]);
});

it("takes a serializer whose data are bytes, and refuses one whose metadata are no JSON", async () => {
  const flip = (bytes: Uint8Array) => bytes.map((byte) => byte ^ 255);
  const plain = new JsonPlusSerializer();
  const flipping = (all: boolean): SerializerProtocol => ({
    async dumpsTyped(value) {
      const [kind, bytes] = await plain.dumpsTyped(value);
      return !all && typeof value === "object" && value !== null && "source" in value ? [kind, bytes] : [`${kind}+flip/1`, flip(bytes)];
    },
    loadsTyped: (kind, data) => plain.loadsTyped(kind.split("+")[0]!, kind.endsWith("+flip/1") ? flip(data as Uint8Array) : data),
  });
  const saver = new MnemonSaver(served.mnemon, { prefix: ["saver", `${savers++}`], serde: flipping(false) });
  const config = await saver.put(thread, checkpointOf({ a: "\u20ac".repeat(9_000) }), metadata, {});
  await saver.putWrites(config, [["a", 1]], "task");
  expect(await saver.getTuple(thread)).toMatchObject({ checkpoint: { channel_values: { a: "\u20ac".repeat(9_000) } }, metadata, pendingWrites: [["task", "a", 1]] });
  const sealed = new MnemonSaver(served.mnemon, { prefix: ["saver", `${savers++}`], serde: flipping(true) });
  await expect(sealed.put(thread, checkpointOf({}), metadata, {})).rejects.toThrow("metadata as JSON");
});

it("refuses a BigInt, where LangGraph's serializer writes a sentence in the place of the whole checkpoint", async () => {
  const saver = newSaver();
  const config = await saver.put(thread, checkpointOf({ a: "kept" }), metadata, {});
  const refused = (work: Promise<unknown>, place: string) => {
    return expect(work).rejects.toThrow(expect.objectContaining({ name: "InvalidArgumentError", message: expect.stringContaining(`${place} is a BigInt`) }));
  };
  await refused(saver.put(thread, checkpointOf({ a: "new", chats: new Map([["monday", { id: 7n }]]) }), metadata, {}), "[\"chats\"][0][1][\"id\"]");
  await refused(saver.put(thread, checkpointOf({}), { ...metadata, chat: 7n } as typeof metadata, {}), "the value[\"chat\"]");
  await refused(saver.putWrites(config, [["a", 1], ["chat", 7n]], "task"), "the value");
  const graph = new StateGraph(Annotation.Root({ chat: Annotation<bigint>(), said: Annotation<string>() }))
    .addNode("model", () => ({ chat: 7n, said: "Noted." }))
    .addEdge(START, "model")
    .compile({ checkpointer: saver });
  await refused(graph.invoke({ said: "Book a room" }, { configurable: { thread_id: "monday" } }), "the value");
  expect(await saver.getTuple(thread)).toMatchObject({ checkpoint: { channel_values: { a: "kept" } }, pendingWrites: [] });
  // The sentence itself is a text as any other.
  const sentence = "[unable to serialize, circular reference is too complex to analyze]";
  await saver.putWrites(config, [["a", sentence]], "task");
  expect((await saver.getTuple(thread))?.pendingWrites).toEqual([["task", "a", sentence]]);
});

it("finds the latest checkpoint in whatever order they were put", async () => {
  const saver = newSaver();
  const checkpoints = Array.from({ length: 5 }, () => checkpointOf({}));
  const ids = checkpoints.map(({ id }) => id);
  for (const at of [3, 4, 0, 2, 1]) await saver.put(thread, checkpoints[at]!, { ...metadata, step: at % 2 }, {});
  expect((await saver.getTuple(thread))?.checkpoint.id).toBe(ids[4]);
  const listed = async (options: object) => {
    const found: string[] = [];
    for await (const { checkpoint } of saver.list(thread, options)) found.push(checkpoint.id);
    return found.map((id) => ids.indexOf(id));
  };
  expect(await listed({ limit: 2 })).toEqual([4, 3]);
  expect(await listed({ limit: 2, before: { configurable: { checkpoint_id: ids[3] } } })).toEqual([2, 1]);
  expect(await listed({ filter: { step: 1 }, limit: 1 })).toEqual([3]);
  expect(await listed({ filter: { step: 0, other: undefined } })).toEqual([4, 2, 0]);
  expect(await listed({})).toEqual([4, 3, 2, 1, 0]);
});

it("loses no write of calls that run at the same time, and keeps the first of two", async () => {
  const saver = newSaver();
  const config = await saver.put(thread, checkpointOf({}), metadata, {});
  await saver.putWrites(config, [["a", "first"], [INTERRUPT, "old"]], "task");
  await Promise.all(Array.from({ length: 20 }, (_, at) => saver.putWrites(config, [["b", at]], `other ${at}`)));
  await saver.putWrites(config, [["a", "second"], [INTERRUPT, "new"], [RESUME, "yes"]], "task");
  const { pendingWrites = [] } = (await saver.getTuple(config)) ?? {};
  expect(pendingWrites).toHaveLength(23);
  expect(pendingWrites.filter(([task]) => task === "task").map(([, ...write]) => write).sort()).toEqual([
    [INTERRUPT, "new"], [RESUME, "yes"], ["a", "first"],
  ]);
});

it("lets another process go on with a graph that was interrupted, and with its earlier states", async () => {
  const prefix = ["saver", `${savers++}`];
  const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
  const compiled = () => new StateGraph(State)
    .addNode("ask", () => ({ log: [`said ${interrupt<string, string>("Go on?")}`] }))
    .addNode("work", ({ log }: { log: string[] }) => ({ log: [`worked on ${log.length}`] }))
    .addEdge(START, "ask")
    .addConditionalEdges("ask", () => [1, 2].map((n) => new Send("work", { log: Array<string>(n).fill("x") })))
    .compile({ checkpointer: new MnemonSaver(served.mnemon, { prefix }) });
  const config = { configurable: { thread_id: "g" } };
  await compiled().invoke({ log: ["began"] }, config);
  expect((await compiled().getState(config)).tasks[0]?.interrupts[0]?.value).toBe("Go on?");
  const { log } = await compiled().invoke(new Command({ resume: "yes" }), config);
  expect(log).toEqual(["began", "said yes", "worked on 1", "worked on 2"]);
  const states = [];
  for await (const state of compiled().getStateHistory(config)) states.push(state);
  expect(states.map(({ next }) => next.length)).toEqual([0, 2, 1, 1]);
  expect((await compiled().invoke(null, states[1]!.config)).log).toEqual(log);
});

it("deletes a thread with all that it has, and no other", async () => {
  const saver = newSaver();
  const other = { configurable: { thread_id: "t/10", checkpoint_ns: "" } };
  for (const config of [thread, other]) await saver.putWrites(await saver.put(config, checkpointOf({ a: "x".repeat(9_000) }), metadata, {}), [["a", 1]], "task");
  await saver.deleteThread("t/1");
  await saver.deleteThread("t/1");
  expect(await saver.getTuple(thread)).toBeUndefined();
  expect(await saver.getTuple(other)).toBeDefined();
  const left = await served.mnemon.namespaces({ prefix: `saver/${savers - 1}/:t%2F1` }).toArray();
  expect(left).toEqual([]);
});
