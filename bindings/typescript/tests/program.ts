/** A program of any runtime: puts messages while it kills the server of its memory, and counts what was kept. */

import { execFileSync } from "node:child_process";
import { Mnemon, type MnemonError } from "mnemon-engine";
import { openLocal } from "mnemon-engine/local";

const [file, url, nowhere] = process.argv.slice(2) as [string, string, string];
const memory = await openLocal(file);
const ada = memory.namespace("users/ada");
const acknowledged: string[] = [];
let kills = 0;
for (let at = 0; at < 100; at++) {
  const put = ada.put(at === 50 ? "I row on Thursdays." : `Note ${at}`);
  if (at % 10 === 5) {
    await new Promise((resolve) => setTimeout(resolve, at / 20));
    process.kill(Number(execFileSync("pgrep", ["-f", `serve --db ${file} `], { encoding: "utf8" }).split("\n")[0]), "SIGKILL");
    kills++;
  }
  acknowledged.push(...(await put).ids);
}
await memory.flush();
let kept = 0;
for (const id of acknowledged) if (await ada.get(id)) kept++;
const found = (await ada.recall("When do I row?", { k: 1 })).hits[0]?.content;
const { messages: stored } = await ada.info();
const controller = new AbortController();
const ended = ada.recall("anything", { signal: controller.signal }).then(() => "answered", (error: Error) => error.name);
controller.abort();
// A server on TCP, by `fetch`; and an address without one.
const remote = new Mnemon({ url });
for await (const progress of remote.reindex()) progress satisfies object;
const { new: put } = await remote.namespace(`runtimes/${Date.now()}`).put("hello");
const refused = await new Mnemon({ url: nowhere, maxRetries: 1 }).stats().catch((error: MnemonError) => error.name);
console.log(JSON.stringify({ acknowledged: acknowledged.length, kept, stored, kills, found, aborted: await ended, put, refused }));
memory.close();
