import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import * as mnemon from "mnemon-engine";
import { Mnemon } from "mnemon-engine";
import { MNEMON, Proxy, Server } from "./server.js";

let server: Server;
let client: Mnemon;
let spaces = 0;
const space = () => client.namespace(`tests/${spaces++}`);

/** An address at which nothing listens. */
let nowhere: string;

before(async () => {
  server = await Server.start("--keep-versions");
  const proxy = await new Proxy(server.url).listen();
  nowhere = proxy.url;
  proxy.close();
  client = new Mnemon({ url: `${server.url}/` });
});
after(() => server.stop());

describe("messages", () => {
  test("are put, found, read, changed and deleted", async () => {
    const ada = space();
    const report = await ada.put(["I row on Thursdays.", { id: "b,c", role: "assistant", content: "Noted." }], { flush: true });
    assert.deepEqual([report.new, report.ids.length, report.ids[1]], [2, 2, "b,c"]);
    const answer = await ada.recall("When does she row?", { k: 1 });
    assert.equal(answer.hits[0]?.content, "I row on Thursdays.");
    assert.equal(answer.hits[0]?.id, report.ids[0]);
    assert.deepEqual((await ada.setMetadata("b,c", { source: "test" })).metadata, { source: "test" });
    await ada.put({ id: "b,c", role: "assistant", content: "Written down." });
    assert.equal((await ada.get("b,c"))?.content, "Written down.");
    assert.equal((await ada.versions("b,c").toArray())[0]?.content, "Noted.");
    assert.equal((await ada.why(report.ids[0] as string))?.entry === undefined, false);
    assert.equal(await ada.why("unknown"), null);
    assert.equal(await ada.delete(["b,c", "unknown", report.ids[0] as string]), 2);
    assert.equal(await ada.delete("b,c"), 0);
    const { ids } = await ada.put(Array.from({ length: 300 }, (_, at) => ({ id: at ? `${at},` : ".", role: "user" as const, content: "x" })));
    assert.equal(await ada.delete(ids), 300);
    assert.deepEqual([await ada.delete([]), await client.namespace("tests/none").delete("x")], [0, 0]);
    assert.equal(await ada.get("b,c"), null);
  });

  test("are taken as OpenAI's client has them", async () => {
    interface Image {
      type: "image_url";
      image_url: { url: string };
    }
    interface Call {
      id: string;
      type: "function";
      function: { name: string; arguments: string };
    }
    const image: Image = { type: "image_url", image_url: { url: "https://example.com/boat.png" } };
    const call: Call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"day":"Thursday"}' } };
    const session = space().session("s");
    await session.put([
      { role: "user", content: [{ type: "text", text: "Can I row?" }, image] },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: "Sun" },
    ]);
    const [first, second, third] = await session.history().toArray();
    const parts = [first, second, third].flatMap((message) => (typeof message?.content === "object" ? message.content : []));
    assert.deepEqual(parts.map((part) => part.type), ["text", "image", "tool_call", "tool_result"]);
    assert.match(JSON.stringify((await session.assemble({ role: "user", content: [image] })).messages.at(-1)), /boat/);
  });

  test("of any names survive", async () => {
    const odd = client.namespace("tests/ä%2F b?#&+/🔭");
    for (const id of ["a/b", "?x=1&y", "%2F", "ä 🔭", "a,b", ".x", "#"]) {
      await odd.put({ id, role: "user", content: id });
      assert.equal((await odd.get(id))?.content, id);
      await odd.documents.put(id, { id });
      assert.deepEqual((await odd.documents.get(id))?.value, { id });
      assert.equal(await odd.delete(id), 1);
      assert.equal(await odd.documents.delete(id), true);
    }
    assert.equal((await client.namespaces({ containing: "🔭" }).toArray()).length, 0);
  });

  test("whose names a path cannot have are refused here", async () => {
    const ada = space();
    await ada.put("This stays.");
    for (const name of [".", "..", "", "\ud800"]) {
      await assert.rejects(ada.get(name), mnemon.InvalidArgumentError);
      await assert.rejects(ada.documents.delete(name), mnemon.InvalidArgumentError);
      await assert.rejects(ada.session(name).delete(), mnemon.InvalidArgumentError);
      await assert.rejects(client.namespace(name).deleteNamespace(), mnemon.InvalidArgumentError);
    }
    assert.throws(() => ada.namespace(undefined as never), /the label is undefined/);
    for (const name of [undefined, null, 7] as never[]) {
      await assert.rejects(client.namespace(name).put("Of nobody."), new RegExp(`the namespace is ${name}`));
      await assert.rejects(ada.documents.get(name), new RegExp(`the key is ${name}`));
    }
    assert.equal((await ada.info()).messages, 1);
    const place = { namespace: ada.name, key: "." };
    await client.batch([{ op: "put", ...place, value: 1 }, { op: "put_messages", namespace: ada.name, messages: { id: "..", role: "user", content: "x" } }]);
    const [{ document }] = await client.batch([{ op: "get", ...place }]);
    assert.deepEqual([document?.value, await client.batch([{ op: "delete", ...place }]), await ada.delete("..")], [1, [{ deleted: true }], 1]);
  });

  test("of several namespaces are ranked together", async () => {
    const [one, two] = [space(), space()];
    await one.put("The boathouse closes at dusk.");
    await two.namespace("below").put("The boathouse opens at nine.");
    const { hits } = await client.recallIn("When does the boathouse open?", { namespaces: [one.name], under: [two.name] });
    assert.deepEqual(new Set(hits.map((hit) => hit.namespace)), new Set([one.name, `${two.name}/below`]));
  });

  test("are listed page by page, each once", async () => {
    const session = space().session("long");
    const texts = Array.from({ length: 25 }, (_, at) => `Note ${at}`);
    await session.put(texts);
    assert.deepEqual((await session.history({ limit: 4 }).toArray()).map((message) => message.content), texts);
    for await (const message of session.history({ limit: 2 })) {
      if (message.content === "Note 5") break;
    }
    assert.deepEqual(await space().session("none").history().toArray(), []);
  });
});

test("the last messages of a session are one request, or as many as they need", async () => {
  const proxy = await new Proxy(server.url).listen();
  try {
    const session = new Mnemon({ url: proxy.url }).namespace(space().name).session("long");
    assert.deepEqual(await session.last(3), []);
    const texts = Array.from({ length: 1200 }, (_, at) => `Note ${at}`);
    const { ids } = await session.put(texts);
    const [sent, contents] = [proxy.requests, (messages: mnemon.Message[]) => messages.map(({ content }) => content)];
    assert.deepEqual(contents(await session.last(3)), texts.slice(-3));
    assert.deepEqual(contents(await session.last(2, { before: ids[10] as string })), ["Note 8", "Note 9"]);
    assert.equal(proxy.requests - sent, 2);
    assert.deepEqual(await session.last(0), []);
    assert.deepEqual(contents(await session.last(Infinity)), texts);
    assert.deepEqual(contents(await session.last(7, { before: ids[2] as string })), ["Note 0", "Note 1"]);
    await assert.rejects(session.last(1, { before: "unknown" }), mnemon.InvalidQueryError);
    // An answer has 4 MiB at most.
    await session.put(["a", "b", "c", "d", "e", "f"].map((letter) => letter.repeat(900_000)));
    assert.deepEqual((await session.last(7)).map(({ content }) => (content as string)[0]), ["N", "a", "b", "c", "d", "e", "f"]);
  } finally {
    proxy.close();
  }
});

describe("a batch", () => {
  test("changes documents and messages in one commit, and answers each operation", async () => {
    const [ada, bob] = [space(), space()];
    await bob.documents.put("old", { n: 1 });
    await bob.put([{ id: "m", role: "user", content: "gone" }, { role: "user", content: "gone, too", session: "s" }]);
    const [got, found, put, messages, gone, deleted, session] = await client.batch([
      { op: "get", namespace: bob.name, key: "old" },
      { op: "search", namespace: bob.name, filter: { n: 1 } },
      { op: "put", namespace: ada.name, key: "k", value: { text: "rowing" } },
      { op: "put_messages", namespace: ada.name, messages: ["I row on Thursdays.", { id: "b", role: "assistant", content: "Noted." }] },
      { op: "delete", namespace: bob.name, key: "old" },
      { op: "delete_messages", namespace: bob.name, ids: ["m", "unknown"] },
      { op: "delete_session", namespace: bob.name, session: "s" },
    ], { flush: true });
    assert.deepEqual([got.document?.value, found.documents.length, put, messages.new, messages.ids[1]], [{ n: 1 }, 1, {}, 2, "b"]);
    assert.deepEqual([gone.deleted satisfies boolean, deleted.deleted satisfies number, session.deleted satisfies boolean], [true, 1, true]);
    assert.equal((await ada.get(messages.ids[0] as string))?.content, "I row on Thursdays.");
    const [none] = await client.batch([{ op: "get", namespace: bob.name, key: "old" }] as mnemon.BatchOperation[]);
    assert.deepEqual(none, { document: null });
  });

  test("is all or nothing, where a document is not what was read", async () => {
    const { name, documents } = space();
    const visit = (before: number | null, visits: number) => client.batch([
      { op: "expect", namespace: name, key: "visits", value: before },
      { op: "put", namespace: name, key: "visits", value: visits },
      { op: "put_messages", namespace: name, messages: "Hello again." },
    ]);
    await visit(null, 1);
    await assert.rejects(visit(null, 1), mnemon.DocumentChangedError);
    await visit(1, 2);
    assert.deepEqual([(await documents.get("visits"))?.value, (await client.namespace(name).info()).messages], [2, 2]);
    // @ts-expect-error: an unknown operation.
    await assert.rejects(client.batch([{ op: "copy", namespace: name }]), mnemon.InvalidArgumentError);
  });
});

test("vectors of one's own", async () => {
  const other = await Server.start("--model", "given:test:2");
  try {
    const { documents } = new Mnemon({ url: other.url }).namespace("users/ada");
    await documents.put("north", "north", { vectors: [[0, 1]], flush: true });
    await documents.put("east", "east", { vectors: [[1, 0]], flush: true });
    const found = await documents.search(null, { vector: [0.9, 0.1], vectors: true });
    assert.deepEqual(found.map(({ key, vectors }) => [key, vectors]), [["east", [[1, 0]]], ["north", [[0, 1]]]]);
    await assert.rejects(documents.put("up", "up", { vectors: [[0, 0, 1]] }), mnemon.InvalidArgumentError);
  } finally {
    await other.stop();
  }
});

test("sessions flush and assemble", async () => {
  const ada = space();
  await ada.put({ role: "user", content: "My rowing lesson is on Thursday.", session: "monday" }, { flush: true });
  const session = ada.session("tuesday");
  const report = await session.put(["Hello!", { role: "assistant", content: "Hello, Ada." }]);
  assert.equal(report.ids.length, 2);
  const prompt = await session.assemble("When is my rowing lesson?", { recall: 1, token_limit: 1000 });
  assert.match(JSON.stringify(prompt.messages[0]), /Thursday/);
  assert.equal(prompt.messages.at(-1)?.content, "When is my rowing lesson?");
  assert.deepEqual(await session.flush(), report.ids);
  assert.deepEqual((await ada.sessions().toArray()).map((info) => info.session), ["monday", "tuesday"]);
  await session.delete();
  await assert.rejects(session.delete(), mnemon.NotFoundError);
  await assert.rejects(session.retry("facts"), mnemon.MnemonError);
  await assert.rejects(session.refine("style", { feedback: "Shorter." }), mnemon.MnemonError);
});

test("documents are put, found and deleted", async () => {
  const { documents } = space();
  for (const key of ["search", "lessons"]) await documents.put(key, { text: `Rowing lessons (${key})` }, { ttl_minutes: 60 });
  const found = await documents.search<{ text: string }>("When are rowing lessons?", { limit: 5, sources: true });
  assert.deepEqual(found.map((document) => document.key).sort(), ["lessons", "search"]);
  assert.match(found[0]?.value.text ?? "", /Rowing/);
  assert.equal((await documents.search(null, { filter: { text: "Rowing lessons (search)" } })).length, 1);
  assert.deepEqual([await documents.delete("search"), await documents.delete("search")], [true, false]);
  assert.equal(await documents.get("search"), null);
  await assert.rejects(documents.put("null", null), mnemon.InvalidArgumentError);
});

test("what is forgotten is gone, with a receipt", async () => {
  const ada = space();
  const { ids } = await ada.put(["one", "two"]);
  await ada.documents.put("a", "text");
  await ada.setTtl(60);
  const receipt = await ada.forget({ by: "messages", ids: [ids[0] as string] });
  assert.match(JSON.stringify(receipt), /"messages":1/);
  assert.equal((await client.audit()).sound, true);
  assert.equal(await ada.get(ids[0] as string), null);
  assert.equal(await ada.deleteNamespace({ below: true }), 1);
});

test("the memory tool", async () => {
  const ada = space();
  const path = "/memories/sport.md";
  assert.equal((await ada.memoryTool({ command: "create", path, file_text: "Ada rows." })).is_error, false);
  assert.match((await ada.memoryTool({ command: "view", path })).content, /Ada rows/);
  assert.equal((await ada.memoryTool({ command: "view", path: "/memories/none.md" })).is_error, true);
  assert.equal((await ada.namespace("memories").documents.search(null)).length, 1);
});

test("the whole server: flush, link, statistics, maps, blocks, formation, backup", async () => {
  const ada = space();
  await ada.put(["one", "two", "three"]);
  assert.equal((await client.flush()).embedded >= 3, true);
  await client.link();
  assert.equal((await client.stats()).pending, 0);
  assert.equal((await ada.map({ sample: 2 })).points.length, 2);
  assert.deepEqual(await ada.blocks().toArray(), []);
  assert.deepEqual((await ada.formation()).blocks, []);
  assert.deepEqual(await ada.facts.search("anything"), []);
  await client.backup(`copy-${ada.name.replace("/", "-")}.redb`);
  await assert.rejects(client.backup(`copy-${ada.name.replace("/", "-")}.redb`), mnemon.PathExistsError);
  assert.equal(await client.ready(), true);
  assert.equal(await new Mnemon({ url: nowhere, maxRetries: 0 }).ready(), false);
});

test("a reindex streams its progress, and can be left and resumed", async () => {
  await space().put(Array.from({ length: 300 }, (_, at) => `Note ${at} of a long list of things to do`), { flush: true });
  for await (const progress of client.reindex({ precision: "i8" })) {
    assert.equal(typeof progress.total, "number");
    break;
  }
  const steps = client.reindex({ precision: "i8" });
  let step = await steps.next();
  while (!step.done) step = await steps.next();
  assert.equal(step.value.precision, "i8");
  await assert.rejects(client.reindex({ model: "unknown" }).next(), mnemon.MnemonError);
});

test("requests have the fields of the description, by their types", async () => {
  const ada = space();
  // @ts-expect-error: an unknown option.
  await assert.rejects(ada.recall("rowing", { limit: 3 }), mnemon.InvalidQueryError);
  // @ts-expect-error: an unknown role.
  await assert.rejects(ada.put({ role: "robot", content: "beep" }), mnemon.InvalidArgumentError);
  // @ts-expect-error: `ids` is missing.
  await assert.rejects(ada.forget({ by: "messages" }), mnemon.InvalidArgumentError);
  // @ts-expect-error: no command.
  await assert.rejects(ada.memoryTool({ command: "chmod" }), mnemon.InvalidArgumentError);
});

describe("errors", () => {
  test("have a class for each kind of the server", () => {
    const folder = join(process.env.CHECKOUT as string, "crates/server/src");
    const source = ["problem.rs", "idempotency.rs"].map((file) => readFileSync(join(folder, file), "utf8")).join("");
    const kinds = [...source.matchAll(/StatusCode::[A-Z_]+, "([a-z-]+)"/g)].map((match) => `urn:mnemon:${match[1]}`);
    assert.ok(kinds.length > 20, `${kinds.length}`);
    const classes = Object.values(mnemon).map((value) => (value as { type?: string }).type);
    assert.deepEqual(kinds.filter((kind) => !classes.includes(kind)), []);
  });

  test("say the remedy", async () => {
    const ada = space();
    const check = async (call: Promise<unknown>, Kind: new (...args: never[]) => Error, text: RegExp) =>
      assert.rejects(call, (error) => error instanceof Kind && error instanceof mnemon.MnemonError && text.test(error.message));
    await check(ada.recall(" "), mnemon.InvalidQueryError, /text is empty/);
    await check(ada.recall("a", { filter: { a: { $no: 1 } } }), mnemon.InvalidArgumentError, /\$no/);
    await check(client.namespace("a//b").put("x"), mnemon.InvalidNamespaceError, /a\/\/b/);
    await check(ada.put({ id: "x".repeat(600), role: "user", content: "x" }), mnemon.InvalidArgumentError, /512/);
    await check(ada.documents.put("k", "x".repeat(2 << 20)), mnemon.InvalidDocumentError, /MiB|bytes/);
    await check(ada.put("x".repeat(9 << 20)), mnemon.TooLargeError, /bytes/);
    await ada.put("one", { idempotencyKey: ada.name });
    await check(ada.put("two", { idempotencyKey: ada.name }), mnemon.IdempotencyKeyReusedError, /new one/);
    await check(ada.put("three", { idempotencyKey: "ключ" }), mnemon.InvalidArgumentError, /visible ASCII/);
    await check(ada.put(null as never), mnemon.InvalidArgumentError, /role/);
    await check(new Mnemon({ url: nowhere, maxRetries: 1 }).stats(), mnemon.NotConnectedError, /mnemon serve.*ECONNREFUSED/);
    await check(new Mnemon({ url: server.url, token: "ключ" }).stats(), mnemon.InvalidArgumentError, /token/);
    for (const url of ["localhost:7411", "", undefined] as string[]) {
      assert.throws(() => new Mnemon({ url }), (error) => error instanceof mnemon.InvalidArgumentError && /http:\/\//.test(error.message));
    }
  });

  test("say that a value has a BigInt, and where", async () => {
    const ada = space();
    const check = (call: Promise<unknown>, said: RegExp) => assert.rejects(call, (error) => error instanceof mnemon.InvalidArgumentError && said.test(error.message));
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    const place = /\["chats"\]\[1\] is a BigInt.*String\(id\)/;
    await check(ada.documents.put("k", { chats: [1, 2n] }), place);
    await check(ada.put({ role: "user", content: "x", metadata: { chats: [1, 2n] } }), place);
    await check(ada.put({ role: "user", content: "x", metadata: { chats: [1, 2n] } }, { idempotencyKey: "key" }), place);
    await check(ada.documents.put("k", cycle), /circular/);
    assert.equal((await ada.mnemon.namespaces({ prefix: ada.name }).toArray()).length, 0);
  });

  test("say that a text has half of a character, and where", async () => {
    const ada = space();
    const check = (call: Promise<unknown>) => assert.rejects(call, (error) => error instanceof mnemon.InvalidArgumentError && /Rowing\W.*half of a surrogate pair/.test(error.message));
    await check(ada.put("Rowing \ud83d"));
    await check(ada.put("Rowing \\\udea3!"));
    await check(ada.documents.put("k", { "Rowing \ud83d": 1 }));
    const whole = "\\ud83d \\\\udea3 🚣 \ud7ff";
    await ada.put({ id: "1", role: "user", content: whole });
    assert.equal((await ada.get("1"))?.content, whole);
  });

  test("of tokens", async () => {
    const other = await Server.start();
    try {
      const tokens = join(other.folder, "tokens.toml");
      const output = (...args: string[]) =>
        execFileSync(MNEMON, ["token", "--prefix", "users", ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
      const made = [output("--name", "app", "--rights", "read,write"), output("--name", "slow", "--rights", "read", "--rate", "1")];
      writeFileSync(tokens, made.join("\n"));
      const [token, slow] = made.map((text) => /mn[a-z]*_[A-Za-z0-9_-]+/.exec(text)?.[0]);
      assert.ok(token && slow, made[0]);
      await other.kill("SIGTERM");
      await other.start("127.0.0.1:0", "--tokens", tokens);
      const { url } = other;
      const ada = new Mnemon({ url, token: async () => token }).namespace("users/ada");
      await ada.put("hello");
      await assert.rejects(ada.delete("x"), mnemon.ForbiddenError);
      await assert.rejects(ada.mnemon.namespace("else").recall("hello"), mnemon.NotFoundError);
      await assert.rejects(new Mnemon({ url }).namespace("users/ada").put("x"), mnemon.UnauthorizedError);
      const limited = new Mnemon({ url, token: slow, maxRetries: 0 });
      const many = Array.from({ length: 10 }, () => limited.namespace("users/ada").recall("hello"));
      await assert.rejects(Promise.all(many), mnemon.TooManyRequestsError);
      const patient = new Mnemon({ url, token: slow }).namespace("users/ada");
      for (let at = 0; at < 2; at++) assert.equal((await patient.recall("hello")).hits.length, 1);
    } finally {
      await other.stop();
    }
  });
});

describe("files of other programs", () => {
  const chat = "[01.05.24, 09:30:00] Ada: The bridge is closed.\n[31.05.24, 09:31:00] Bob: Since when?\n";
  const bytes = new TextEncoder().encode(chat);
  const stream = (parts: readonly Uint8Array[]) =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        parts.forEach((part) => controller.enqueue(part));
        controller.close();
      },
    });

  test("are imported from a path, a Blob, bytes and a stream, and stored once", async () => {
    const ada = space();
    const path = join(server.folder, "_chat.txt");
    writeFileSync(path, chat);
    const first = await ada.importFile(path, { me: "Ada", time_zone: "Europe/Berlin", flush: true });
    assert.deepEqual([first.new, first.formats, first.namespaces], [2, { whatsapp: 1 }, [ada.name]]);
    const name = "_chat.txt";
    for (const file of [path, new Blob([chat]), new File([chat], name), bytes, stream([bytes.slice(0, 40), bytes.slice(40)])]) {
      const again = await ada.importFile(file, { name, me: "Ada", time_zone: "Europe/Berlin" });
      assert.deepEqual([again.new, again.replaced, again.unchanged], [0, 0, 2]);
    }
    assert.equal((await ada.recall("What is closed?", { k: 1 })).hits[0]?.content, "The bridge is closed.");
    const line = JSON.stringify({ namespace: ada.namespace("below").name, role: "user", content: "It opens at dusk." });
    assert.deepEqual((await client.importFile(new Blob([line]))).namespaces, [`${ada.name}/below`]);
  });

  test("that are larger than other requests are sent while they are read", async () => {
    const ada = space();
    const path = join(server.folder, "large.jsonl");
    const line = (at: number) => `${JSON.stringify({ role: "user", content: `${at}`, metadata: { long: "x".repeat(100_000) } })}\n`;
    writeFileSync(path, Array.from({ length: 150 }, (_, at) => line(at)).join(""));
    assert.equal((await ada.importFile(path)).new, 150);
  });

  test("that cannot be read say so", async () => {
    const ada = space();
    const check = (file: mnemon.FileLike, text: RegExp, Kind: new (...args: never[]) => Error = mnemon.InvalidFileError) =>
      assert.rejects(ada.importFile(file), (error) => error instanceof Kind && text.test(error.message));
    await check(new Blob(["no format at all"]), /no known format/);
    await check(new Blob([]), /empty/, mnemon.InvalidArgumentError);
    await check(join(server.folder, "none.txt"), /is no file/, mnemon.InvalidArgumentError);
    await check(server.folder, /is no file/, mnemon.InvalidArgumentError);
    await check(undefined as never, /the file is undefined/, mnemon.InvalidArgumentError);
    const two = `${JSON.stringify({ role: "user", content: "one" })}\n{}\n`;
    await check(new Blob([two]), /file:2.*1 messages before it are stored/s);
    const report = await ada.importFile(new Blob([two]), { skip_bad: true });
    assert.deepEqual([report.unchanged, report.skipped, report.notes.length], [1, 1, 1]);
  });

  test("are sent again after a lost connection, but a stream is not", async () => {
    const proxy = await new Proxy(server.url).listen();
    try {
      const ada = new Mnemon({ url: proxy.url }).namespace(space().name);
      proxy.fault = "answer";
      assert.equal((await ada.importFile(bytes)).unchanged, 2);
      proxy.fault = "answer";
      await assert.rejects(ada.importFile(stream([bytes])), mnemon.ConnectionLostError);
      assert.equal((await ada.info()).messages, 2);
    } finally {
      proxy.close();
    }
  });
});

describe("connections", () => {
  let proxy: Proxy;
  let through: Mnemon;
  before(async () => {
    proxy = await new Proxy(server.url).listen();
    through = new Mnemon({ url: proxy.url });
  });
  after(() => proxy.close());
  /** Runs a call whose first answer is lost. Returns how many requests the server got. */
  const withoutAnswer = async (call: () => Promise<unknown>): Promise<number> => {
    const before = proxy.requests;
    proxy.fault = "answer";
    await call();
    assert.equal(proxy.fault, undefined);
    return proxy.requests - before;
  };

  test("that are lost make a call repeat what may be repeated, once stored", async () => {
    const ada = through.namespace(space().name);
    assert.equal(await withoutAnswer(() => ada.put(["one", "two"])), 2);
    assert.equal(await withoutAnswer(() => ada.session("s").put("three")), 2);
    assert.equal(await withoutAnswer(() => ada.recall("one")), 2);
    assert.equal(await withoutAnswer(() => ada.documents.put("k", "v")), 2);
    const namespace = ada.name;
    assert.equal(await withoutAnswer(() => ada.mnemon.batch([{ op: "put_messages", namespace, messages: "four" }])), 2);
    assert.equal(await withoutAnswer(async () => assert.equal(await ada.documents.delete("k"), true)), 2);
    assert.equal((await ada.info()).messages, 4);
  });

  test("that are lost do not repeat what would happen twice", async () => {
    const ada = through.namespace(space().name);
    await ada.put(["one", "two"]);
    await ada.memoryTool({ command: "create", path: "/memories/a.md", file_text: "1\n" });
    const insert = { command: "insert", path: "/memories/a.md", insert_line: 1, insert_text: "2\n" } as const;
    assert.equal(await withoutAnswer(() => assert.rejects(ada.memoryTool(insert, { idempotencyKey: ada.name }), mnemon.ConnectionLostError)), 1);
    await ada.memoryTool(insert, { idempotencyKey: ada.name });
    const first = [{ op: "expect", namespace: ada.name, key: "k", value: null }, { op: "put", namespace: ada.name, key: "k", value: 1 }] as const;
    assert.equal(await withoutAnswer(() => assert.rejects(ada.mnemon.batch(first), mnemon.ConnectionLostError)), 1);
    assert.equal((await ada.memoryTool({ command: "view", path: "/memories/a.md" })).content.match(/\t2/g)?.length, 1);
    assert.equal(await withoutAnswer(() => assert.rejects(ada.forget({ by: "namespace" }), /look before you repeat/)), 1);
    assert.equal((await ada.info()).messages, 0);
  });

  test("that are lost, and then the server, are not taken for a call that was not sent", async () => {
    const other = await new Proxy(server.url).listen();
    const ada = new Mnemon({ url: other.url, maxRetries: 1 }).namespace(space().name);
    other.fault = "answer";
    const put = ada.put("one");
    while (other.fault) await new Promise((resolve) => setTimeout(resolve, 1));
    other.close();
    await assert.rejects(put, mnemon.ConnectionLostError);
    assert.equal((await client.namespace(ada.name).info()).messages, 1);
  });

  test("that are silent end by the time limit, or by the signal", async () => {
    proxy.fault = "request";
    const began = Date.now();
    await assert.rejects(through.stats({ timeoutMs: 200 }), (error) => error instanceof mnemon.TimeLimitError && /200 ms/.test(error.message));
    await assert.rejects(through.stats({ signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
    await assert.rejects(through.stats({ signal: AbortSignal.abort(new Error("mine")) }), /mine/);
    assert.ok(Date.now() - began < 5_000);
    proxy.fault = undefined;
    assert.equal((await through.stats()).version.length > 0, true);
  });

  test("have the time that they are given, however long", async () => {
    for (const timeoutMs of [2 ** 31, Infinity]) assert.ok(await new Mnemon({ url: server.url, timeoutMs }).stats());
    assert.equal(await client.ready(), true);
    await assert.rejects(client.ready({ signal: AbortSignal.abort(new Error("mine")) }), /mine/);
  });

  test("to something else than a server of mnemon are errors, which say so", async () => {
    const other = async (listener: RequestListener, call: (to: Mnemon) => Promise<unknown>, Kind: typeof mnemon.MnemonError, text: RegExp, requests = 1) => {
      let count = 0;
      const listening = createServer((request, answer) => (count++, listener(request, answer)));
      await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
      try {
        const to = new Mnemon({ url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`, maxRetries: 1 });
        await assert.rejects(call(to), (error) => error instanceof Kind && text.test(error.message));
        assert.equal(count, requests);
      } finally {
        listening.closeAllConnections();
        listening.close();
      }
    };
    const put = (to: Mnemon) => to.namespace("a").session("s").put("x");
    await other((_, answer) => answer.setHeader("content-type", "text/html").end("<html>"), put, mnemon.MnemonError, /200 and is none of mnemon's.*<html>/);
    await other((_, answer) => answer.end(), (to) => to.namespace("a").documents.put("k", 1), mnemon.MnemonError, /none of mnemon's/);
    // A redirected POST arrives as a GET, which lists the session: nothing would be stored.
    const moved = { location: `${server.url}/v1/namespaces/a/sessions/s/messages` };
    for (const status of [301, 308]) await other((_, answer) => answer.writeHead(status, moved).end(), put, mnemon.MnemonError, /redirected to http.*messages/);
    await other((_, answer) => answer.writeHead(504).end("late"), put, mnemon.OutcomeUnknownError, /504.*stored or not/, 2);
    const reindex = async (to: Mnemon) => {
      for await (const progress of to.reindex()) assert.deepEqual(progress, { done: 1 });
    };
    const cut: RequestListener = (_, answer) => {
      answer.setHeader("content-type", "text/event-stream").write('event: progress\ndata: {"done":1}\n\n');
      setTimeout(() => answer.destroy(), 50);
    };
    await other(cut, reindex, mnemon.MnemonError, /the server ended during the reindex/);
  });

  test("a server that is started anew is found, and has what it acknowledged", async () => {
    const other = await Server.start();
    try {
      const ada = new Mnemon({ url: other.url, maxRetries: 8 }).namespace("users/ada");
      const acknowledged = [...(await ada.put("before")).ids];
      await other.kill();
      const put = ada.put("meanwhile");
      await other.start(new URL(other.url).host);
      acknowledged.push(...(await put).ids);
      for (const id of acknowledged) assert.ok(await ada.get(id));
      const turn = () => ada.put(["question", { role: "assistant", content: "answer" }], { idempotencyKey: "turn-1" });
      const first = await turn();
      assert.deepEqual(await turn(), first);
      await other.kill();
      await other.start(new URL(other.url).host);
      assert.deepEqual([(await turn()).ids, (await ada.info()).messages], [first.ids, 4]);
      await ada.session("s").put("question", { idempotencyKey: "turn-2" });
      await other.kill();
      await other.start(new URL(other.url).host);
      await ada.session("t").put("question", { idempotencyKey: "turn-2" });
      assert.equal((await ada.info()).messages, 6);
    } finally {
      await other.stop();
    }
  });
});
