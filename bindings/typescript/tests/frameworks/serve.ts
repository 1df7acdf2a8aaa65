/** A real server for the tests of a file, and what its client sends. */

import { Mnemon } from "mnemon-engine";
import { afterAll, beforeAll } from "vitest";

import { Server } from "../server.js";

export interface Served {
  url: string;
  mnemon: Mnemon;
  /** The requests that were sent, such as `PUT /v1/...`. */
  requests: string[];
}

/** Starts a server before the tests of a file, and ends it after them. `args` are options of `mnemon serve`. */
export function serve(...args: string[]): Served {
  const served: Served = { url: "", mnemon: new Mnemon({ url: "http://127.0.0.1:1" }), requests: [] };
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(...args);
    served.url = server.url;
    served.mnemon = new Mnemon({
      url: server.url,
      fetch: (request) => {
        served.requests.push(`${request.method} ${new URL(request.url).pathname}`);
        return fetch(request);
      },
    });
  }, 60_000);
  afterAll(() => server.stop());
  return served;
}
