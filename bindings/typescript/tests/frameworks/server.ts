/** A real server on a database of its own, for the tests and examples of a file. */

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { afterAll, beforeAll } from "vitest";

import { Mnemon } from "../../src/index.js";

/** Requests that the client of `serve` has sent, as `PUT /v1/...`. */
export interface Served {
  url: string;
  mnemon: Mnemon;
  requests: string[];
}

/** Starts `$MNEMON_BINARY`, or `mnemon` of the path, before the tests of a file, and ends it after them. */
export function serve(): Served {
  const served: Served = { url: "", mnemon: new Mnemon({ url: "http://127.0.0.1:1" }), requests: [] };
  let stop = async () => {};
  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "mnemon-"));
    const server = spawn(process.env["MNEMON_BINARY"] ?? "mnemon", ["serve", "--db", join(folder, "memory.redb"), "--listen", "127.0.0.1:0"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const ended = new Promise<void>((resolve) => server.once("close", () => resolve()));
    stop = async () => {
      server.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    };
    const said: string[] = [];
    served.url = await new Promise((resolve, reject) => {
      server.once("error", (error) => reject(new Error("mnemon is missing; name it in $MNEMON_BINARY", { cause: error })));
      void ended.then(() => reject(new Error(`mnemon ended: ${said.join("\n")}`)));
      createInterface({ input: server.stderr }).on("line", (line) => {
        said.push(line);
        const address = /listening on (\S+)/.exec(line)?.[1];
        if (address) resolve(address);
      });
    });
    const fetching = (request: Request) => {
      served.requests.push(`${request.method} ${new URL(request.url).pathname}`);
      return fetch(request);
    };
    served.mnemon = new Mnemon({ url: served.url, fetch: fetching });
  }, 60_000);
  afterAll(() => stop(), 30_000);
  return served;
}
