/**
 * Sends requests: the token, time limits, and the rules by which a request is repeated.
 *
 * What a request may be repeated after depends on what is known. Without a connection, or after an answer that says that the server did
 * not begin (429, `overloaded`, `database-moved`), every request is repeated. After a lost connection or another answer of 408 or 5xx it is repeated if its
 * call is repeatable: it reads, or its second execution leaves what the first one did. A server keeps the answers to idempotency keys in
 * memory, so a key alone does not make a call repeatable after a lost connection: the server may have been started anew.
 */

import { ConnectionLostError, InvalidArgumentError, MnemonError, NotConnectedError, TimeLimitError } from "./errors.js";
import type { FileBody } from "./files.js";

export interface ClientOptions {
  /** The server's address, such as `http://127.0.0.1:7411`. */
  url: string;
  /** A token of the server, or what returns one for each request. */
  token?: string | (() => string | Promise<string>) | undefined;
  /** Milliseconds that a call may take, with all its attempts. Default: 60,000; none for calls that the server does not limit either. */
  timeoutMs?: number | undefined;
  /** How often a request is repeated at most. Default: 4. */
  maxRetries?: number | undefined;
  /** Sends a request. Default: the global `fetch`. */
  fetch?: ((request: Request) => Promise<Response>) | undefined;
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call. What it changes may be stored all the same. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that this call may take. */
  timeoutMs?: number | undefined;
}

/** Options of calls that change something. */
export interface ChangeOptions extends CallOptions {
  /** A text of your own, up to 255 characters: a call with the same key and arguments is answered as the first. Default: a new one. */
  idempotencyKey?: string | undefined;
}

/** What a call says to the transport beside its request. */
export interface Call extends CallOptions {
  repeatable: boolean;
  /** The server sets no limit to it. */
  slow?: boolean;
  /** A file that is the body. */
  file?: FileBody;
}

/** The type of a body that is a file, which is sent while it is read. */
export const FILE_TYPE = "application/octet-stream";

const TIMEOUT_MS = 60_000;
const MAX_RETRIES = 4;
const MAX_PAUSE_MS = 5_000;
/** How runtimes say that there was no connection. A browser does not say. */
const NOT_CONNECTED = /bad port|certificate|ECONNREFUSED|ConnectionRefused|connection refused|ENOENT|ENOTFOUND|EAI_AGAIN|failed to lookup/i;

/** Problems after which every request is repeated. */
const NOT_BEGUN = new Set(["overloaded", "database-moved", "idempotency-key-running"].map((kind) => `urn:mnemon:${kind}`));

export class Transport {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** Sends a request until it is answered. Throws if there is no answer; an answer may be an error of the server. */
  async send(request: Request, call: Call): Promise<Response> {
    const { timeoutMs = call.slow ? undefined : (this.#options.timeoutMs ?? TIMEOUT_MS) } = call;
    // Not `AbortSignal.timeout`, whose timer would outlive the call and keep Deno from its end.
    const limit = new AbortController();
    // A longer timer would end at once.
    const timer = timeoutMs === undefined || timeoutMs >= 2 ** 31 ? undefined : setTimeout(() => limit.abort(), timeoutMs);
    const signal = call.signal ? AbortSignal.any([call.signal, limit.signal]) : limit.signal;
    const { method, url } = request;
    const headers = new Headers(request.headers);
    const body = method === "GET" || call.file ? undefined : await request.arrayBuffer();
    if (call.file) headers.set("content-type", FILE_TYPE);
    // Whether an attempt may have reached the server, and was not answered.
    let unanswered = false;
    try {
      for (let retries = 0; ; retries++) {
        const { token } = this.#options;
        if (token !== undefined) headers.set("authorization", bearer(typeof token === "function" ? await token() : token));
        const last = call.file?.isStream === true || retries >= (this.#options.maxRetries ?? MAX_RETRIES);
        let pause = Math.min(MAX_PAUSE_MS, 100 * 2 ** retries) * (0.5 + Math.random() / 2);
        try {
          // A put that is redirected may arrive as a read, and be answered as one.
          const sent = new Request(url, { method, headers, signal, redirect: "manual", ...bodyOf(body, call.file) });
          const answer = await whole(await (this.#options.fetch ?? fetch)(sent));
          if (last || !(await mayRepeat(answer, call.repeatable))) return answer;
          pause = Math.max(pause, 1000 * (Number(answer.headers.get("retry-after")) || 0));
        } catch (error) {
          if (signal.aborted || error instanceof MnemonError) throw error;
          const connected = !NOT_CONNECTED.test(textOf(error));
          unanswered ||= connected;
          if (last || (connected && !call.repeatable)) throw failureOf(error, url, unanswered);
        }
        await unlessAborted(new Promise((resolve) => setTimeout(resolve, pause)), signal);
      }
    } catch (error) {
      if (call.signal?.aborted) throw call.signal.reason;
      if (!limit.signal.aborted) throw error;
      const text = `there was no answer within ${timeoutMs} ms (timeoutMs); what the call changes is stored or not`;
      throw new TimeLimitError(text, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Returns the body of an attempt, as options of a request. One that is a stream needs `duplex`, which the types lack. */
function bodyOf(body: ArrayBuffer | undefined, file: FileBody | undefined): RequestInit {
  if (file) return { body: file.open(), duplex: "half" } as RequestInit;
  return body?.byteLength ? { body } : {};
}

/** Reads the answer to its end, unless it is a stream of events: a connection that is lost on the way counts as lost. */
async function whole(answer: Response): Promise<Response> {
  if (answer.headers.get("content-type")?.startsWith("text/event-stream")) return answer;
  if (answer.type === "opaqueredirect" || [301, 302, 303, 307, 308].includes(answer.status)) {
    throw new MnemonError(`the url is redirected to ${answer.headers.get("location") ?? "another"}; give the address of the server itself`);
  }
  const body = await answer.arrayBuffer();
  const { status, headers } = answer;
  return new Response(body.byteLength ? body : null, { status, headers });
}

async function mayRepeat(answer: Response, repeatable: boolean): Promise<boolean> {
  if (answer.status === 429) return true;
  if (answer.status !== 408 && answer.status !== 409 && answer.status < 502) return false;
  const problem: unknown = await answer.clone().json().catch(() => undefined);
  const type = (problem as { type?: unknown } | undefined)?.type;
  if (NOT_BEGUN.has(String(type))) return true;
  return answer.status !== 409 && repeatable;
}

/** Returns what an error of `fetch` and its cause say. */
function textOf(error: unknown): string {
  const { code, message, cause } = error as { code?: string; message?: string; cause?: { code?: string; message?: string } };
  return [code, message, cause?.code, cause?.message].filter(Boolean).join(" ");
}

function failureOf(cause: unknown, url: string, unanswered: boolean): MnemonError {
  const { origin } = new URL(url);
  const said = textOf(cause);
  if (!unanswered) return new NotConnectedError(`there is no server at ${origin}; start one with \`mnemon serve\`, or check the url (${said})`, { cause });
  const remedy = "what the call changes is stored or not: look before you repeat it";
  return new ConnectionLostError(`the connection to ${origin} failed before there was an answer (${said}); ${remedy}`, { cause });
}

function bearer(token: string): string {
  if (/[^\t -~]/.test(token.trim())) throw new InvalidArgumentError("the token has other characters than those of ASCII; check what was copied");
  return `Bearer ${token}`;
}

/** Waits for a promise, and throws the signal's reason as soon as it is aborted. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Returns a new id or key: 128 random bits. Not `crypto.randomUUID`, which pages without TLS lack. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
