/**
 * Errors. Each kind of problem that the server answers has a class, named as in the Python package; `message` says what happened and the
 * remedy. A signal that is aborted makes a call throw the signal's reason, which is none of these.
 */

import type { components } from "./schema.js";

/** A problem as the server describes it (RFC 9457). */
export type Problem = components["schemas"]["Problem"];

/** The base of all errors of this package. An error that it throws itself is of a kind that is unknown here. */
export class MnemonError extends Error {
  /** The kind, such as `urn:mnemon:invalid-query`. Kinds are stable. */
  readonly type: string;
  /** The status of the answer. Undefined if there was none. */
  readonly status: number | undefined;

  constructor(message: string, options: { type?: string; status?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.type = options.type ?? (new.target as { type?: string }).type ?? "about:blank";
    this.status = options.status;
  }
}

/** The request is not what the route takes. */
export class InvalidArgumentError extends MnemonError {
  static readonly type: string = "urn:mnemon:bad-request";
}
export class InvalidNamespaceError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-namespace";
}
export class InvalidCursorError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-cursor";
}
export class InvalidMessageError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-message";
}
export class InvalidDocumentError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-document";
}
export class InvalidQueryError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-query";
}
export class InvalidFilterError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-filter";
}
/** A file to import cannot be read, or a message of it not be stored. Those before it are stored. */
export class InvalidFileError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-file";
}
export class InvalidConfigError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:invalid-config";
}
/**
 * The request is larger than the server takes, by default 8 MiB, after `openLocal` 32 MiB:
 * `openLocal(file, { serve: ["--max-body", "67108864"] })` starts one that takes 64 MiB.
 */
export class TooLargeError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:too-large";
}
/** An idempotency key was used before, for another request. */
export class IdempotencyKeyReusedError extends InvalidArgumentError {
  static override readonly type = "urn:mnemon:idempotency-key-reused";
}
/** The first request with this idempotency key still runs. The client waits for it; this is thrown if that took too long. */
export class IdempotencyKeyRunningError extends MnemonError {
  static readonly type = "urn:mnemon:idempotency-key-running";
}
/** The first request with this idempotency key was done, and is not done again; its answer was too large to keep. */
export class IdempotencyAnswerDroppedError extends MnemonError {
  static readonly type = "urn:mnemon:idempotency-answer-dropped";
}

/** The token is missing or unknown. */
export class UnauthorizedError extends MnemonError {
  static readonly type = "urn:mnemon:unauthorized";
}
/** The token lacks the right, or the page's origin is not allowed. */
export class ForbiddenError extends MnemonError {
  static readonly type = "urn:mnemon:forbidden";
}
/** There is no such thing, or the token may not see it. */
export class NotFoundError extends MnemonError {
  static readonly type = "urn:mnemon:not-found";
}

export class SessionExistsError extends MnemonError {
  static readonly type = "urn:mnemon:session-exists";
}
export class DocumentChangedError extends MnemonError {
  static readonly type = "urn:mnemon:document-changed";
}
/** Messages were deleted or changed while something was made of them: nothing was stored. */
export class MessagesChangedError extends MnemonError {
  static readonly type = "urn:mnemon:messages-changed";
}
export class ReindexRunningError extends MnemonError {
  static readonly type = "urn:mnemon:reindex-running";
}
export class PathExistsError extends MnemonError {
  static readonly type = "urn:mnemon:file-exists";
}
/** A legal hold forbids the deletion. */
export class LegalHoldError extends MnemonError {
  static readonly type = "urn:mnemon:legal-hold";
}

/** The server cannot answer now. Requests that may be repeated were, until the time or the attempts were over. */
export class UnavailableError extends MnemonError {
  static readonly type: string = "urn:mnemon:closing";
}
export class OverloadedError extends UnavailableError {
  static override readonly type = "urn:mnemon:overloaded";
}
export class TooManyRequestsError extends UnavailableError {
  static override readonly type = "urn:mnemon:too-many-requests";
}
export class SlowBodyError extends UnavailableError {
  static override readonly type = "urn:mnemon:slow-body";
}
export class EmbedderUnavailableError extends UnavailableError {
  static override readonly type = "urn:mnemon:embedder-unavailable";
}
export class ModelUnavailableError extends UnavailableError {
  static override readonly type = "urn:mnemon:model-unavailable";
}
/** The file of the database was moved, removed or replaced under its server: nothing was changed. */
export class DatabaseMovedError extends UnavailableError {
  static override readonly type = "urn:mnemon:database-moved";
}
export class SharedDatabaseUnavailableError extends UnavailableError {
  static override readonly type = "urn:mnemon:shared-database-unavailable";
}

/** What a language model answered was of no use. */
export class ModelAnswerError extends MnemonError {
  static readonly type = "urn:mnemon:model-answer";
}
/** The server failed; its log says more. */
export class InternalError extends MnemonError {
  static readonly type = "urn:mnemon:internal";
}

/** What the request changes is stored or not. Look before repeating it, or repeat it with the same `idempotencyKey`. */
export class OutcomeUnknownError extends MnemonError {
  static readonly type: string = "urn:mnemon:outcome-unknown";
}
/** The request took the server too long. */
export class ServerTimeoutError extends OutcomeUnknownError {
  static override readonly type = "urn:mnemon:timeout";
}
/** There was no answer within `timeoutMs`. */
export class TimeLimitError extends OutcomeUnknownError {
  static override readonly type = "urn:mnemon:client:time-limit";
}
/** The connection ended before the answer was complete. */
export class ConnectionLostError extends OutcomeUnknownError {
  static override readonly type = "urn:mnemon:client:connection-lost";
}
/** There is no connection to the server: nothing was sent. */
export class NotConnectedError extends MnemonError {
  static readonly type = "urn:mnemon:client:not-connected";
}

const CLASSES: readonly (typeof MnemonError & { type: string })[] = [
  InvalidArgumentError, InvalidNamespaceError, InvalidCursorError, InvalidMessageError, InvalidDocumentError, InvalidFileError, InvalidQueryError,
  InvalidFilterError, InvalidConfigError, TooLargeError, IdempotencyKeyReusedError, IdempotencyKeyRunningError,
  IdempotencyAnswerDroppedError, UnauthorizedError,
  ForbiddenError, NotFoundError, SessionExistsError, DocumentChangedError, MessagesChangedError, ReindexRunningError, PathExistsError,
  LegalHoldError, UnavailableError, OverloadedError, TooManyRequestsError, SlowBodyError, EmbedderUnavailableError, ModelUnavailableError,
  DatabaseMovedError, SharedDatabaseUnavailableError, ModelAnswerError, InternalError, OutcomeUnknownError, ServerTimeoutError,
];

/** Returns the error of an answer that is no success. `answer` is its body: a problem, or what a proxy wrote. */
export function errorOf(answer: unknown, status: number): MnemonError {
  if (typeof answer === "object" && answer !== null && "type" in answer && "detail" in answer) {
    const { type, detail } = answer as Problem;
    const Kind = CLASSES.find((kind) => kind.type === type) ?? MnemonError;
    return new Kind(detail, { type, status });
  }
  const text = typeof answer === "string" ? answer.slice(0, 200) : "";
  const what = `the answer has the status ${status} and is none of mnemon's`;
  // A proxy's, which may have passed the request on.
  if ([408, 502, 503, 504].includes(status)) return new OutcomeUnknownError(`${what}; what the call changes is stored or not: ${text}`, { status });
  return new MnemonError(`${what}; check the url: ${text}`, { status });
}
