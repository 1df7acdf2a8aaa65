/**
 * A memory in a file of this machine, for Node, Deno and Bun: finds the server of the file, or starts one, as `mnemon mcp` does
 * (crates/cli/src/local_server.rs). Any number of programs share it, and it ends some time after the last one's last request.
 *
 * The server's note beside the file says where its socket is (crates/server/src/socket.rs), so that programs with other environments meet.
 */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, lstatSync, readFileSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { Agent, type IncomingMessage, request as httpRequest } from "node:http";
import { createRequire } from "node:module";
import { basename, delimiter, dirname, join, resolve } from "node:path";
import { pipeline, Readable } from "node:stream";

import { Mnemon } from "./client.js";
import { InvalidArgumentError, MnemonError, NotConnectedError } from "./errors.js";
import { type ClientOptions, FILE_TYPE, unlessAborted } from "./transport.js";

export interface LocalOptions extends Pick<ClientOptions, "timeoutMs" | "maxRetries"> {
  /** The command. Default: `$MNEMON_BINARY`, the package of this platform, or `mnemon` in the PATH. */
  binary?: string | undefined;
  /** The model of a new database, a folder or a name. Default: that of the database, or else static-en-256. */
  model?: string | undefined;
  /** A file with the key of the database. Default: `$MNEMON_KEY`, or no encryption. */
  keyFile?: string | undefined;
  /** Seconds without a client after which the server ends. Default: 600. */
  idleSeconds?: number | undefined;
  /** Start the server so that it replaces keys, tokens and card numbers by marks. One that runs already and does not is refused. */
  removeSecrets?: boolean | undefined;
  /** More options of `mnemon serve`, such as `["--llm", "http://localhost:11434/v1", "--llm-model", "llama3.2"]`: see docs/server.md. */
  serve?: readonly string[] | undefined;
  /** Milliseconds that a server may take to open its database and listen. Default: 60,000. One that cannot start is reported at once. */
  startTimeoutMs?: number | undefined;
}

const POLL_MS = 20;
/** What a server says that is not the first one: the other one will answer, or end. Until then another is started now and then. */
const OTHER_SERVER = /another server of it/;
const RESTART_MS = 500;
/** What a server says if the file is open elsewhere, and how long one may take to end whose file was moved to this name. */
const OPEN_ELSEWHERE = /already open/;
const PATIENCE_MS = 1_500;
/** Shorter than the 20 s after which the server closes an idle connection: a request would meet its end. */
const IDLE_CONNECTION_MS = 10_000;

/**
 * Opens the memory in a file, which is created if it is missing. The options count if a server is started: one that runs goes on as it is,
 * but is refused if it does not remove secrets as it should.
 * If the server is killed, the next call starts another, and what may be repeated is.
 */
export async function openLocal(file: string, options: LocalOptions = {}): Promise<Mnemon> {
  const server = new LocalServer(file, options);
  await server.connected();
  const { timeoutMs, maxRetries } = options;
  const [fetch, onClose] = [(request: Request) => server.fetch(request), () => server.close()];
  return new Mnemon({ url: "http://localhost", timeoutMs, maxRetries, fetch, onClose });
}

class LocalServer {
  readonly #file: string;
  readonly #options: LocalOptions;
  readonly #binary: string;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS });
  #child: ChildProcess | undefined;
  /** The search for a server that runs now, which all calls share. */
  #connecting: Promise<void> | undefined;

  constructor(file: string, options: LocalOptions) {
    if (process.platform === "win32") {
      throw new MnemonError("there is no openLocal on Windows; start `mnemon serve`, and use new Mnemon({ url })");
    }
    this.#file = absolute(file);
    this.#options = options;
    this.#binary = options.binary ?? findBinary();
  }

  async fetch(request: Request): Promise<Response> {
    if (request.headers.get("content-type") === FILE_TYPE) {
      // A file can be sent once.
      await this.connected(request.signal);
      return this.#send(request, Readable.fromWeb(request.body as import("node:stream/web").ReadableStream));
    }
    const body = Buffer.from(await request.arrayBuffer());
    try {
      return await this.#send(request, body);
    } catch (error) {
      if (!isAway(error)) throw error;
    }
    await this.connected(request.signal);
    return this.#send(request, body);
  }

  /** Waits until a server answers, and starts one if there is none. */
  async connected(signal?: AbortSignal): Promise<void> {
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = undefined));
    return signal ? unlessAborted(this.#connecting, signal) : this.#connecting;
  }

  close(): void {
    this.#agent.destroy();
  }

  async #connect(): Promise<void> {
    const { startTimeoutMs = 60_000 } = this.#options;
    const deadline = Date.now() + startTimeoutMs;
    let startAt = 0;
    let refusal: string | undefined;
    let openElsewhere: number | undefined;
    while (!(await this.#send(new Request("http://localhost/health"), Buffer.alloc(0)).then((answer) => this.#serves(answer), away))) {
      if (Date.now() > deadline) {
        const reason = refusal ?? this.#refusal() ?? `\`${this.#binary} ${this.#arguments().join(" ")}\` says why`;
        throw new NotConnectedError(`no server of ${this.#file} answers after ${startTimeoutMs} ms: ${reason}`);
      }
      if (this.#child?.exitCode) {
        this.#child = undefined;
        refusal = this.#refusal();
        if (refusal !== undefined && OPEN_ELSEWHERE.test(refusal)) openElsewhere ??= Date.now();
        const isWaitedFor = openElsewhere === undefined ? refusal === undefined || OTHER_SERVER.test(refusal) : Date.now() < openElsewhere + PATIENCE_MS;
        if (!isWaitedFor) throw new NotConnectedError(`no server of ${this.#file} can be started: ${refusal}`);
        startAt = Date.now() + RESTART_MS;
      } else if (Date.now() >= startAt && (!this.#child || this.#child.exitCode === 0 || this.#child.signalCode !== null)) {
        await this.#start();
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Returns true if a server answers that serves as the options say. */
  async #serves(answer: Response): Promise<boolean> {
    const { removes_secrets: removesSecrets } = answer.ok ? ((await answer.json()) as { removes_secrets?: boolean }) : {};
    if (answer.ok && this.#options.removeSecrets && !removesSecrets) {
      throw new MnemonError(
        `the server of ${this.#file} runs without --remove-secrets and would store secrets as they are; end it, and openLocal starts one that ` +
          "removes them, or leave out removeSecrets",
      );
    }
    return answer.ok;
  }

  #arguments(): string[] {
    const { model, keyFile, idleSeconds = 600, removeSecrets, serve = [] } = this.#options;
    return ["serve", "--db", this.#file, "--private", "--idle", String(idleSeconds), ...(model ? ["--model", model] : []),
      ...(removeSecrets ? ["--remove-secrets"] : []), ...(keyFile ? ["--key-file", keyFile] : []), ...serve];
  }

  /** Starts a server that outlives this process. */
  async #start(): Promise<void> {
    const child = spawn(this.#binary, this.#arguments(), { detached: true, stdio: "ignore" });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (cause) => reject(new MnemonError(`${this.#binary} cannot be started: ${cause.message}`, { cause })));
    });
    child.unref();
    this.#child = child;
  }

  /** Returns why no server can be started: tries it once more, and reads what it says. Undefined if it starts. */
  #refusal(): string | undefined {
    const tried = spawnSync(this.#binary, this.#arguments(), { encoding: "utf8", timeout: 2_000, stdio: ["ignore", "ignore", "pipe"] });
    return tried.status ? tried.stderr.trim() : undefined;
  }

  async #send(request: Request, body: Buffer | Readable): Promise<Response> {
    const socketPath = notedSocket(this.#file);
    return new Promise((resolve, reject) => {
      const { pathname, search } = new URL(request.url);
      const { method, signal } = request;
      const headers = { ...Object.fromEntries(request.headers), host: "localhost" };
      const options = { socketPath, path: pathname + search, method, headers, signal, agent: this.#agent };
      const sent = httpRequest(options, (answer) => resolve(response(answer)));
      sent.on("error", reject);
      if (body instanceof Readable) {
        // The server may answer before it has read all.
        pipeline(body, sent, (error) => error && reject(error));
      } else {
        sent.end(body);
      }
    });
  }
}

/** Returns true for an error that says that no server listens. */
function isAway(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "ENOENT" || code === "ECONNREFUSED";
}

/** Returns false for an error that says that no server listens yet, and throws others, such as a right that Deno does not give. */
function away(error: Error & { code?: string }): false {
  if (error instanceof MnemonError || error.name === "NotCapable" || error.code === "EACCES") throw error;
  return false;
}

function response(answer: IncomingMessage): Response {
  const status = answer.statusCode ?? 500;
  const headers = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      try {
        for await (const chunk of answer) controller.enqueue(new Uint8Array(chunk as Buffer));
        controller.close();
      } catch (error) {
        controller.error(error);
      }
    },
    cancel() {
      answer.destroy();
    },
  });
  if (status === 204) answer.resume();
  return new Response(status === 204 ? null : stream, { status, headers });
}

/** Returns the path by which all processes know a database, which need not exist yet. */
function absolute(file: string): string {
  if (!file || statSync(file, { throwIfNoEntry: false })?.isDirectory()) {
    throw new InvalidArgumentError(`${JSON.stringify(file)} is no file; give the path of one`);
  }
  if (existsSync(file)) return realpathSync.native(file);
  // A link to a database that is to be made.
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return absolute(resolve(dirname(file), readlinkSync(file)));
  const folder = dirname(file);
  if (!existsSync(folder)) throw new InvalidArgumentError(`there is no folder ${folder}; make it first`);
  return join(realpathSync.native(folder), basename(file));
}

/** Returns the socket that a server of this file noted beside it. Throws ENOENT if none did. */
function notedSocket(file: string): string {
  const path = `${file}.server`;
  const [note, database] = [lstatSync(path), statSync(file, { bigint: true })];
  const isOfOwner = note.uid === process.geteuid?.() || BigInt(note.uid) === database.uid;
  if (!note.isFile() || note.mode & 0o077 || !isOfOwner) {
    throw new MnemonError(`${path} is no note of a server of this user or of the owner of ${file}; remove it if no server runs`);
  }
  const { socket = "", file: served } = parsed(readFileSync(path, "utf8"));
  // A server whose file was moved, removed or replaced serves another database.
  if (socket && served === `${database.dev}:${database.ino}`) return socket;
  throw Object.assign(new Error(`no server of ${file} listens`), { code: "ENOENT" });
}

/** Parses a note, which its server may be about to write. */
function parsed(note: string): { socket?: string; file?: string } {
  try {
    return JSON.parse(note) as { socket?: string; file?: string };
  } catch {
    return {};
  }
}

/** Returns the path of the command: `$MNEMON_BINARY`, that of the package of this platform, or one in the PATH. */
export function findBinary(): string {
  const { MNEMON_BINARY, PATH = "" } = process.env;
  if (MNEMON_BINARY) return MNEMON_BINARY;
  const name = `mnemon-engine-${process.platform}-${process.arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/mnemon`);
  } catch {
    const inPath = PATH.split(delimiter).map((folder) => join(folder, "mnemon")).find(isExecutable);
    if (inPath) return inPath;
  }
  throw new MnemonError(
    `there is no mnemon command: neither the package ${name} is installed (npm leaves it out with --omit=optional), nor is mnemon in ` +
      "the PATH; install one of them, or set MNEMON_BINARY or the option binary to its path",
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
