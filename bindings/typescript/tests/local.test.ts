import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { InvalidArgumentError, MnemonError, NotConnectedError, TooLargeError } from "mnemon-engine";
import { openLocal } from "mnemon-engine/local";
import { killServersOf, MNEMON, serversOf, temporaryFolder } from "./server.js";

const folder = temporaryFolder();
const runtime = join(folder, "run");
before(() => {
  mkdirSync(runtime);
  process.env.XDG_RUNTIME_DIR = runtime;
});
const files: string[] = [];
function file(name: string): string {
  files.push(join(folder, name));
  return join(folder, name);
}
after(() => {
  files.forEach(killServersOf);
  rmSync(folder, { recursive: true, force: true });
});

describe("openLocal", () => {
  test("starts one server, which all clients share, by any name of the file", async () => {
    const path = file("shared.redb");
    const clients = await Promise.all(Array.from({ length: 4 }, () => openLocal(path)));
    await Promise.all(clients.map((client, at) => client.namespace("users/ada").put(`message ${at}`)));
    symlinkSync(path, join(folder, "link.redb"));
    using linked = await openLocal(join(folder, "link.redb"));
    assert.equal((await linked.namespace("users/ada").info()).messages, 4);
    assert.equal(serversOf(path).length, 1);
    clients.forEach((client) => client.close());
  });

  test("makes the database that a link names", async () => {
    symlinkSync("target.redb", file("dangling.redb"));
    using memory = await openLocal(file("dangling.redb"));
    await memory.namespace("users/ada").put("hello");
    assert.equal(existsSync(file("target.redb")), true);
  });

  test("takes a message with all of its metadata in one request, unless the options say otherwise", async () => {
    const message = { role: "user" as const, content: "A boat", metadata: { image: "A".repeat(16_000_000) } };
    using memory = await openLocal(file("large.redb"));
    assert.equal((await memory.namespace("users/ada").put(message)).ids.length, 1);
    using small = await openLocal(file("small.redb"), { serve: ["--max-body=8388608"] });
    await assert.rejects(small.namespace("users/ada").put(message), (error) => error instanceof TooLargeError && error.message.includes("8388608"));
  });

  test("imports files over the socket, and starts the server for one", async () => {
    const path = file("imported.redb");
    const chat = join(folder, "_chat.txt");
    writeFileSync(chat, "[01.05.24, 09:30:00] Ada: The bridge is closed.\n[31.05.24, 09:31:00] Bob: Since when?\n");
    using memory = await openLocal(path);
    const ada = memory.namespace("users/ada");
    assert.deepEqual((await ada.importFile(chat)).formats, { whatsapp: 1 });
    killServersOf(path);
    assert.equal((await ada.importFile(chat)).unchanged, 2);
    const large = join(folder, "large.jsonl");
    writeFileSync(large, `${JSON.stringify({ role: "user", content: "x", metadata: { long: "x".repeat(1_000_000) } })}\n`.repeat(40));
    assert.equal((await ada.importFile(large)).new, 40);
    await assert.rejects(ada.importFile(new Blob(["no format at all"])), /no known format/);
    assert.equal((await ada.info()).messages, 42);
  });

  test("uses a server that runs already, as `mnemon mcp` does", async () => {
    const path = file("running.redb");
    const server = spawn(MNEMON, ["mcp", "--db", path], { stdio: ["pipe", "pipe", "ignore"] });
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };
    server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })}\n`);
    await new Promise((resolve) => server.stdout.once("data", resolve));
    const before = serversOf(path);
    using memory = await openLocal(path);
    await memory.namespace("users/ada").put("hello");
    assert.deepEqual(serversOf(path), before);
    server.kill();
  });

  test("refuses a server that stores secrets where they are to be removed", async () => {
    const path = file("secrets.redb");
    using memory = await openLocal(path);
    await memory.namespace("users/ada").put("hello");
    await assert.rejects(openLocal(path, { removeSecrets: true }), (error) => error instanceof MnemonError && error.message.includes("--remove-secrets"));
    const other = file("removed.redb");
    using removing = await openLocal(other, { removeSecrets: true });
    const key = `sk-${"aB3dE5gH".repeat(4)}`;
    const { ids } = await removing.namespace("users/ada").put(`My key is ${key}.`);
    using same = await openLocal(other, { removeSecrets: true });
    assert.equal((await same.namespace("users/ada").get(ids[0]!))?.content, "My key is [key removed].");
  });

  test("loses nothing that was acknowledged when the server is killed", async () => {
    const path = file("killed.redb");
    using memory = await openLocal(path);
    const ada = memory.namespace("users/ada");
    const acknowledged: string[] = [];
    let kills = 0;
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let at = 0; at < 60; at++) {
        const { ids } = at % 3 ? await ada.put(`${writer} ${at}`) : await ada.session(`s${writer}`).put(`${writer} ${at}`);
        acknowledged.push(...ids);
        if (writer === 0 && at % 10 === 5) {
          killServersOf(path);
          kills++;
        }
      }
    });
    await Promise.all(writers);
    assert.equal(kills, 6);
    assert.equal(acknowledged.length, 240);
    for (const id of acknowledged) assert.ok(await ada.get(id), id);
    assert.equal((await ada.info()).messages, 240);
    assert.equal(serversOf(path).length, 1);
  });

  test("does not repeat what would happen twice, and says so", async () => {
    const path = file("unsafe.redb");
    using memory = await openLocal(path);
    const ada = memory.namespace("users/ada");
    await ada.memoryTool({ command: "create", path: "/memories/a.md", file_text: "begin\n" });
    const acknowledged: boolean[] = [];
    for (let at = 0; at < 12; at++) {
      const insert = ada.memoryTool({ command: "insert", path: "/memories/a.md", insert_line: 1, insert_text: `line-${at};\n` });
      await new Promise((resolve) => setTimeout(resolve, at));
      killServersOf(path);
      const answer = await insert.catch((error: Error) => error);
      if (answer instanceof Error) assert.match(answer.message, /stored or not/);
      acknowledged.push(!(answer instanceof Error));
      await ada.info();
    }
    const { content } = await ada.memoryTool({ command: "view", path: "/memories/a.md" });
    acknowledged.forEach((stored, at) => {
      const times = content.split(`line-${at};`).length - 1;
      assert.ok(stored ? times === 1 : times <= 1, `line ${at}: ${times} times, acknowledged: ${stored}`);
    });
  });

  test("starts the server again after it ended by itself", async () => {
    const path = file("idle.redb");
    using memory = await openLocal(path, { idleSeconds: 1 });
    await memory.namespace("users/ada").put("hello");
    memory.close();
    while (serversOf(path).length) await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await memory.namespace("users/ada").info()).messages, 1);
  });

  test("says why there is no memory", async () => {
    const damaged = file("no-database.redb");
    writeFileSync(damaged, "this is no database");
    const check = (call: Promise<unknown>, Kind: new (text: string) => Error, text: RegExp) =>
      assert.rejects(call, (error) => error instanceof Kind && text.test(error.message));
    const began = Date.now();
    await check(openLocal(damaged), NotConnectedError, /no server of .*no-database\.redb can be started: .*no-database\.redb/s);
    await check(openLocal(join(folder, "none", "memory.redb")), InvalidArgumentError, /no folder/);
    for (const path of ["", folder]) await check(openLocal(path), InvalidArgumentError, /no file/);
    await check(openLocal(file("z.redb"), { serve: ["--none"] }), NotConnectedError, /unexpected argument '--none'/);
    await check(openLocal(file("k.redb"), { keyFile: join(folder, "none") }), NotConnectedError, /no encryption key/);
    assert.ok(Date.now() - began < 30_000, "at once, and not after startTimeoutMs");
    await check(openLocal(file("x.redb"), { binary: "/none/mnemon" }), MnemonError, /cannot be started/);
    process.env.XDG_RUNTIME_DIR = process.env.TMPDIR = join(folder, "open");
    for (const name of ["mnemon", `mnemon-${process.geteuid?.()}`]) mkdirSync(join(folder, "open", name), { recursive: true, mode: 0o755 });
    await check(openLocal(file("y.redb")), NotConnectedError, /not a folder of this user alone.*set XDG_RUNTIME_DIR/s);
    process.env.XDG_RUNTIME_DIR = runtime;
    delete process.env.TMPDIR;
    // A program that is no server has the file open.
    const held = file("held.redb");
    const holder = spawn(MNEMON, ["ingest", "--db", held, "-"], { stdio: ["pipe", "ignore", "ignore"] });
    while (!existsSync(held)) await new Promise((resolve) => setTimeout(resolve, 20));
    const asked = Date.now();
    await check(openLocal(held), NotConnectedError, new RegExp(`already open in the process ${holder.pid}`));
    assert.ok(Date.now() - asked < 20_000, "at once, and not after startTimeoutMs");
    holder.stdin.end();
  });

  test("finds the server from every environment, and one of its file alone", async () => {
    const path = file("met.redb");
    using first = await openLocal(path);
    await first.namespace("users/ada").put("hello");
    process.env.XDG_RUNTIME_DIR = mkdtempSync(join(folder, "other-"));
    using second = await openLocal(path);
    process.env.XDG_RUNTIME_DIR = runtime;
    assert.equal((await second.namespace("users/ada").info()).messages, 1);
    assert.equal(serversOf(path).length, 1);
    // The next call goes to a server of what has the name then.
    renameSync(path, `${path}.moved`);
    await first.namespace("users/ada").put("said in a new file");
    await first.namespace("users/ada").put("and once more");
    assert.equal((await second.namespace("users/ada").info()).messages, 2);
    while (serversOf(path).length > 1) await new Promise((resolve) => setTimeout(resolve, 50));
    chmodSync(`${path}.server`, 0o666);
    await assert.rejects(openLocal(path), /is no note of a server of this user/);
  });
});
