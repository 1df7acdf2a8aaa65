import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { killServersOf, Proxy, RUNTIMES, Server, temporaryFolder } from "./server.js";

const folder = temporaryFolder();
let server: Server;
let nowhere: Proxy;
before(async () => {
  server = await Server.start();
  nowhere = await new Proxy(server.url).listen();
  nowhere.close();
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});
describe("the same program, which kills the server ten times", () => {
  for (const [name, program, args] of RUNTIMES) {
    test(`in ${name}`, async () => {
      const file = join(folder, `${name}.redb`);
      const env = { ...process.env, XDG_RUNTIME_DIR: folder, DENO_DIR: join(folder, "deno"), DENO_NO_UPDATE_CHECK: "1" };
      try {
        const all = [...args, "tests/program.js", file, server.url, nowhere.url];
        const { stdout } = await promisify(execFile)(program, all, { env, timeout: 60_000 });
        const found = "I row on Thursdays.";
        assert.deepEqual(JSON.parse(stdout.trim()),
          { acknowledged: 100, kept: 100, stored: 100, kills: 10, found, aborted: "AbortError", put: 1, refused: "NotConnectedError" });
      } finally {
        killServersOf(file);
      }
    });
  }
});
