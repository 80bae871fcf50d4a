/**
 * What can go wrong, one class for each decision that a caller can make.
 *
 *     MnemologError
 *     ├── InvalidRequest        correct the request; `field` names what is wrong
 *     │   └── TooLarge          split it, or shorten it
 *     ├── Unauthorized          send a key that holds
 *     ├── Forbidden             another agent, or another key, may do that
 *     ├── NotFound              it is not there, or not for this reader
 *     ├── Conflict              look at what is there, then decide
 *     │   ├── VersionConflict   read the document again, and repeat the change
 *     │   ├── AlreadyClaimed    claim another action
 *     │   └── StaleToken        claim the action again, before anything else is changed
 *     ├── Overloaded            later, with the same event id; nothing was stored
 *     ├── Unavailable           later, with the same event id; whether a write was stored is not known
 *     │   ├── ProjectionBehind  what was written is safe, and cannot be read yet
 *     │   └── Unreachable       no server answered
 *     ├── ServerFault           an error of the server, or an answer that is not mnemolog's
 *     └── EmitterError
 *         ├── EmitterFull       emit fewer, or wait
 *         ├── EmitterClosed     it takes no more
 *         ├── NotDelivered      `left` events were not acknowledged in time
 *         └── SpoolInUse        another emitter has the folder
 */

/** What the server says of an error beside its code and message. */
export interface ErrorDetails {
  /** What has to be corrected. */
  readonly field?: string | undefined;
  /** The status of HTTP, or 0. */
  readonly status?: number;
  readonly reason?: string;
  readonly lag?: Readonly<Record<string, number>>;
  readonly retryAfterS?: number | undefined;
  readonly cause?: unknown;
  /** Of a conflict: the document's version, who made it, who works on the action, and until when. */
  readonly conflict?: Readonly<Record<string, unknown>>;
}

/** The base of all errors here. `code`, `message` and `field` are the server's; `status` is that of HTTP, or 0. */
export class MnemologError extends Error {
  readonly code: string;
  readonly field: string | undefined;
  readonly status: number;
  /** When to come back, where the server said so. */
  readonly retryAfterS: number | undefined;
  /** Of an overload: `memory`, `lag`, `disk`, `queue` or `server`, or `limit`: of the requests of the key. */
  readonly reason: string;
  /** Log entries that are not projected yet, by partition, where reads are behind. */
  readonly lag: Readonly<Record<string, number>>;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean = false;
  /** Whether the request may have been carried out all the same. */
  outcomeUnknown = false;
  /** Whether an attempt before this answer may have been carried out: it may be what this one is refused for. */
  afterLostAttempt = false;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.field = details.field;
    this.status = details.status ?? 0;
    this.retryAfterS = details.retryAfterS;
    this.reason = details.reason ?? "";
    this.lag = details.lag ?? {};
  }

  override toString(): string {
    const where = this.field && !this.message.includes(this.field) ? ` (field ${this.field})` : "";
    const doubt = this.afterLostAttempt ? "; an attempt before, whose answer was lost, may have succeeded" : "";
    return `${this.code}: ${this.message}${where}${doubt}`;
  }
}

/** The request is not one that the server takes. */
export class InvalidRequest extends MnemologError {}

/** The body, the batch or the text is larger than allowed. */
export class TooLarge extends InvalidRequest {}

/** There was no key, or one that is wrong, expired or revoked. */
export class Unauthorized extends MnemologError {}

/** The key or the agent may not do that. */
export class Forbidden extends MnemologError {}

/** No such document, session or slot, or not for this reader. */
export class NotFound extends MnemologError {}

/**
 * What is there already is in the way; nothing was changed.
 *
 * `version` is the document's, and `changedBy` the agent that made it. An action's `holder` works on it, until
 * `expiresAt` if it is a claim. What the server did not say is undefined or empty.
 */
export class Conflict extends MnemologError {
  readonly version: number | undefined;
  readonly changedBy: string;
  readonly holder: string;
  readonly expiresAt: string | undefined;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(code, message, details);
    const { version, changed_by: changedBy, holder, expires_at: expiresAt } = details.conflict ?? {};
    this.version = typeof version === "number" ? version : undefined;
    this.changedBy = typeof changedBy === "string" ? changedBy : "";
    this.holder = typeof holder === "string" ? holder : "";
    this.expiresAt = typeof expiresAt === "string" ? expiresAt : undefined;
  }
}

/** The document is no longer at the expected version. */
export class VersionConflict extends Conflict {}

/** An agent works on the action. */
export class AlreadyClaimed extends Conflict {}

/** The token's claim has expired, was released, or ended with the action. */
export class StaleToken extends Conflict {}

/** The server, or the key's quota, has no room; nothing was stored. */
export class Overloaded extends MnemologError {
  override readonly retryable = true;
}

/** The server, or what it stores in, is away. */
export class Unavailable extends MnemologError {
  override readonly retryable = true;
  override outcomeUnknown = true;
}

/** What was written before is not projected yet. */
export class ProjectionBehind extends Unavailable {}

/** The connection failed or was cut. */
export class Unreachable extends Unavailable {}

/** The server failed, or what answered is no mnemolog. */
export class ServerFault extends MnemologError {
  override outcomeUnknown = true;
}

/** What can go wrong with an emitter. */
export class EmitterError extends MnemologError {}

/** As many events, or bytes, wait as were allowed; this one was not taken. */
export class EmitterFull extends EmitterError {
  constructor(message: string) {
    super("emitter_full", message);
  }
}

/** The emitter was closed; this event was not taken. */
export class EmitterClosed extends EmitterError {
  constructor() {
    super("emitter_closed", "the emitter is closed");
  }
}

/** `left` events were not acknowledged in time; `trouble` is the last error, if any. */
export class NotDelivered extends EmitterError {
  readonly left: number;
  readonly trouble: MnemologError | undefined;

  constructor(left: number, trouble: MnemologError | undefined) {
    const why = trouble === undefined ? "there was no time" : String(trouble);
    super("not_delivered", `${left} events are not acknowledged: ${why}`, { cause: trouble });
    this.left = left;
    this.trouble = trouble;
  }
}

/** Another emitter, of this process or another, has the folder. */
export class SpoolInUse extends EmitterError {
  constructor(folder: string) {
    super("spool_in_use", `another emitter uses ${folder}; each needs a folder of its own`);
  }
}

type Kind = new (code: string, message: string, details: ErrorDetails) => MnemologError;

const BY_STATUS: Readonly<Record<number, Kind>> = {
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  413: TooLarge,
  429: Overloaded,
  502: Unavailable,
  503: Unavailable,
  504: Unavailable,
};
const BY_CODE: Readonly<Record<string, Kind>> = {
  projection_behind: ProjectionBehind,
  version_conflict: VersionConflict,
  claimed: AlreadyClaimed,
  stale_token: StaleToken,
};

/** An answer of HTTP, read to its end. */
export interface Reply {
  readonly url: string;
  readonly status: number;
  readonly text: string;
  /** The Retry-After header. */
  readonly retryAfter: string | null;
  /** The Mnemolog-Degraded header. */
  readonly leftOut: string | null;
}

/** The error for an answer that is not a success. */
export function errorOf(reply: Reply): MnemologError {
  const { status, url } = reply;
  const told = problem(reply.text);
  const code = told?.code ?? "unreadable_answer";
  const message = told?.message ?? `${url} answered ${status}, but not as mnemolog does`;
  const kind = BY_CODE[code] ?? BY_STATUS[status] ?? kindOf(status);
  return new kind(code, message, { ...told?.details, status, retryAfterS: seconds(reply.retryAfter) });
}

function kindOf(status: number): Kind {
  return status >= 400 && status < 500 ? InvalidRequest : ServerFault;
}

/** What a problem (RFC 9457) says; undefined for anything else. */
function problem(text: string): { code: string; message: string; details: ErrorDetails } | undefined {
  const told = parsed(text);
  if (!isObject(told)) return undefined;
  const { code, detail: message, field, reason = "", lag = {} } = told;
  if (typeof code !== "string" || typeof message !== "string" || typeof reason !== "string") return undefined;
  const behind = isObject(lag) ? (lag as Record<string, number>) : {};
  const named = typeof field === "string" ? field : undefined;
  return { code, message: worded(message, named), details: { field: named, reason, lag: behind, conflict: told } };
}

/** What the server's decoder says of a field, in words for people. */
const PLAIN: readonly (readonly [RegExp, string])[] = [
  [/^Object missing required field .*$/, "is missing"],
  [/^Invalid enum value (.*)$/, "cannot be $1"],
  [/^Invalid RFC3339 encoded datetime$/, "must be a time such as 2026-01-31T12:00:00Z"],
  [/^Expected `datetime` with a timezone component$/, "must be a time with a time zone"],
  [/^Expected `(?:str|array)` of length >= 1$/, "must not be empty"],
  [/^Expected `str` of length <= (.*)$/, "may have at most $1 characters"],
  [/^Expected `array` of length <= (.*)$/, "may have at most $1 values"],
  [/^Expected `str` matching regex (.*)$/, "must match $1"],
  [/^Expected `(?:int|float)` >= (.*)$/, "must be at least $1"],
  [/^Expected `(?:int|float)` > (.*)$/, "must be more than $1"],
  [/^Expected `(?:int|float)` <= (.*)$/, "must be at most $1"],
  [/^Expected `(?:int|float)` < (.*)$/, "must be less than $1"],
  [/^Expected `int.*$/, "must be a whole number"],
  [/^Expected `float.*$/, "must be a number"],
  [/^Expected `bool.*$/, "must be true or false"],
  [/^Expected `str.*$/, "must be text"],
  [/^Expected `array.*$/, "must be a list"],
  [/^Expected `object.*$/, "must be an object"],
];

/** The message about a field; as it is, if it is no decoder's. */
function worded(message: string, field: string | undefined): string {
  const [pattern, words] = PLAIN.find(([one]) => one.test(message)) ?? [];
  return pattern ? `${field ?? "the value"} ${message.replace(pattern, words!)}` : message;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether something that was read as JSON is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Codes of Node, and of Bun, for a connection that was never made. */
const NEVER_SENT = new Set([
  "ConnectionRefused", "EAI_AGAIN", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** The error of a request that had no answer: the connection failed, was cut, or took too long. */
export function unanswered(url: string, fault: unknown): Unreachable {
  const cause = fault instanceof Error && fault.cause instanceof Error ? fault.cause : fault;
  const said = cause instanceof Error && cause.message ? cause.message : codeOf(cause) || String(fault);
  const error = new Unreachable("unreachable", `${url}: ${said}`, { cause: fault });
  error.outcomeUnknown = !NEVER_SENT.has(codeOf(cause)); // a browser does not tell
  return error;
}

function codeOf(fault: unknown): string {
  return isObject(fault) && typeof fault["code"] === "string" ? fault["code"] : "";
}

/** Seconds of a Retry-After header; undefined for none, and for a date, which mnemolog does not send. */
function seconds(header: string | null): number | undefined {
  const read = header === null || header.trim() === "" ? Number.NaN : Number(header);
  return Number.isFinite(read) ? Math.max(0, read) : undefined;
}
