import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { killServersOf, RUNTIMES, Server, temporaryFolder } from "./server.js";

const folder = temporaryFolder();
let server: Server;
before(async () => (server = await Server.start()));
after(async () => {
  killServersOf(join(folder, "memory.redb"));
  rmSync(folder, { recursive: true });
  await server.stop();
});

for (const [runtime, program, args] of RUNTIMES) {
  for (const programs of ["readme", "examples"]) {
    describe(`${programs} in ${runtime}`, () => {
      for (const name of readdirSync(programs).filter((name) => name.endsWith(".js")).sort()) {
        test(name, async () => {
          const env = { ...process.env, XDG_RUNTIME_DIR: folder, MNEMON_URL: server.url, DENO_DIR: join(folder, "deno"), DENO_NO_UPDATE_CHECK: "1" };
          const { stdout } = await promisify(execFile)(program, [...args, resolve(programs, name)], { cwd: folder, env, timeout: 60_000 });
          assert.notEqual(stdout, "");
        });
      }
    });
  }
}
