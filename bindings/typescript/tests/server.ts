/** Real servers for the tests, and a connection to one that fails as connections do. */

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { findBinary } from "mnemon-engine/local";

export const MNEMON = findBinary();

const bin = join(process.env.TOOLS ?? "..", "node_modules", ".bin");
/** The runtimes that programs are tried in, each with its executable and what comes before a program's file. */
export const RUNTIMES: [string, string, string[]][] = [
  ["Node", process.execPath, []],
  ["Deno", join(bin, "deno"), [
    "run", "--allow-run", "--allow-read", "--allow-write", "--allow-env", "--allow-sys", "--allow-net",
    "--no-config", "--node-modules-dir=manual",
  ]],
  ["Bun", join(bin, "bun"), ["run"]],
];

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "mnemon-typescript-"));
}

export class Server {
  readonly folder = temporaryFolder();
  url = "";
  #process: ChildProcess | undefined;

  static async start(...args: string[]): Promise<Server> {
    const server = new Server();
    await server.start("127.0.0.1:0", ...args);
    return server;
  }

  async start(listen: string, ...args: string[]): Promise<void> {
    const db = join(this.folder, "memory.redb");
    const child = spawn(MNEMON, ["--format", "json", "serve", "--db", db, "--listen", listen, ...args], { stdio: ["ignore", "ignore", "pipe"] });
    this.#process = child;
    for await (const line of createInterface({ input: child.stderr })) {
      this.url = (JSON.parse(line) as { listening?: string }).listening ?? "";
      if (this.url) break;
    }
    if (!this.url) throw new Error("the server ended before it listened");
    child.stderr.resume();
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  async stop(): Promise<void> {
    await this.kill("SIGTERM");
    rmSync(this.folder, { recursive: true });
  }
}

/** Returns the ids of the processes that serve a database. */
export function serversOf(file: string): number[] {
  try {
    return execFileSync("pgrep", ["-f", `serve --db ${file} `], { encoding: "utf8" }).trim().split("\n").map(Number);
  } catch {
    return [];
  }
}

export function killServersOf(file: string): void {
  for (const pid of serversOf(file)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

/** Passes connections on to a server. `fault` says what becomes of the next requests. */
export class Proxy {
  /** `answer`: the server answers, and the answer is lost; `request`: nothing is passed on, nor answered. */
  fault: "answer" | "request" | undefined;
  /** Number of requests that were passed on. */
  requests = 0;
  url = "";
  readonly #sockets = new Set<Socket>();
  readonly #listener = createServer((client) => this.#serve(client));

  constructor(readonly target: string) {}

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#listener.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
    return this;
  }

  #serve(client: Socket): void {
    const server = connect(Number(new URL(this.target).port), "127.0.0.1");
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => [client, server].forEach((end) => end.destroy()));
    }
    const { port } = new URL(this.target);
    client.on("data", (bytes) => {
      if (this.fault === "request") return;
      const text = bytes.toString("latin1");
      if (/^(GET|POST|PUT|PATCH|DELETE) /.test(text)) this.requests++;
      server.write(text.replace(/^host: .*$/im, `host: 127.0.0.1:${port}`), "latin1");
    });
    server.on("data", (bytes) => {
      if (this.fault !== "answer") return client.write(bytes);
      this.fault = undefined;
      client.destroy();
    });
  }

  close(): void {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
