/**
 * What an emitter does, apart from waiting: takes commands, says when a batch is due, and what came of one.
 *
 * Commands leave it in the order they came, and only once the server has acknowledged or refused them: the next batch
 * is made when the previous batch is settled.
 */

import type { BatchAccepted, Rejection } from "./answers.ts";
import { withoutNull } from "./calls.ts";
import { EmitterError, EmitterFull, MnemologError, NotDelivered, TooLarge } from "./errors.ts";
import type { Command } from "./fields.ts";
import { encodedCommand, eventIdOf } from "./nouns.ts";
import { Retry } from "./retry.ts";
import type { Waiting } from "./waiting.ts";
import { InMemory } from "./waiting.ts";

/** An event has 1 MiB at most; its JSON has more where characters are escaped. */
const MAX_LINE_BYTES = 8 << 20;
const MAX_BATCH_EVENTS = 10_000;
const AGAIN = new Retry({ firstPauseS: 0.1, longestPauseS: 30 });
/** The longest pause between attempts while the emitter is being closed. */
const CLOSING_PAUSE_S = 0.5;
/** Refusals of a batch that may be due to one of its commands. */
const TO_BE_SPLIT = new Set(["malformed", "too_large"]);

/**
 * How much may wait, and how long.
 *
 * A batch is sent when `batchEvents` or `flushEveryS` is reached. When `maxEvents` or `maxBytes` wait, `emit` rejects
 * with EmitterFull, or waits with `whenFull: "block"`. `fsync`: each command is on the disk when `emit` resolves.
 * `onRejected` is called with each command that the server refused, and why; what is sent next waits for it.
 */
export interface EmitterOptions {
  readonly maxEvents?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly batchEvents?: number | undefined;
  readonly batchBytes?: number | undefined;
  readonly flushEveryS?: number | undefined;
  readonly whenFull?: "throw" | "block" | undefined;
  readonly fsync?: boolean | undefined;
  readonly onRejected?: ((command: Command, rejection: Rejection) => void | Promise<void>) | undefined;
  /** Told of what a person should know: trouble when it begins, what was refused. `console.warn` unless given. */
  readonly log?: ((message: string) => void) | undefined;
}

/** What became of what was emitted; `trouble` is why the last batch failed, while it does. */
export interface EmitterStats {
  readonly waiting: number;
  readonly accepted: number;
  readonly duplicates: number;
  readonly rejected: number;
  readonly trouble: MnemologError | undefined;
}

/** The commands that wait, and what is known of those that were sent. Times are milliseconds of `performance.now()`. */
export class Outbox {
  readonly blocks: boolean;
  readonly log: (message: string) => void;
  closed = false;
  readonly #queue: Waiting;
  readonly #agent: string;
  readonly #maxEvents: number;
  readonly #maxBytes: number;
  readonly #batchEvents: number;
  readonly #batchBytes: number;
  readonly #flushEveryMs: number;
  readonly #onRejected: (command: Command, rejection: Rejection) => void | Promise<void>;
  #atMost: number;
  #accepted = 0;
  #duplicates = 0;
  #rejected = 0;
  #failures = 0;
  /**
   * Commands since the opening, with those that an earlier process left: that have a place, that were put into the
   * queue, that a flush waits for, that are settled. The queue's own count changes in the middle of `put` and `settle`.
   */
  #places: number;
  #put: number;
  #wanted: number;
  #settled = 0;
  /** Bytes that have a place and are not in the queue yet. */
  #comingBytes = 0;
  #trouble: MnemologError | undefined;
  #refused: [Uint8Array, Rejection][] = [];
  #oldestMs = performance.now();
  #notBeforeMs = this.#oldestMs;

  constructor(queue: Waiting, agent: string, options: EmitterOptions = {}) {
    this.#queue = queue;
    this.#agent = agent;
    this.#maxEvents = options.maxEvents ?? 100_000;
    this.#maxBytes = options.maxBytes ?? 256 << 20;
    this.#batchEvents = Math.min(options.batchEvents ?? 500, MAX_BATCH_EVENTS);
    this.#batchBytes = Math.min(options.batchBytes ?? 4 << 20, MAX_LINE_BYTES);
    this.#flushEveryMs = (options.flushEveryS ?? 1) * 1000;
    this.#onRejected = options.onRejected ?? (() => undefined);
    this.blocks = options.whenFull === "block";
    this.log = logOf(options);
    this.#atMost = this.#batchEvents;
    this.#places = this.#put = this.#wanted = queue.count; // what an earlier process left goes at once
  }

  /** Whether what waits is still there when the process has ended. */
  get survives(): boolean {
    return this.#queue.survives;
  }

  /** Commands that are neither acknowledged nor refused. */
  get waiting(): number {
    return this.#places - this.#settled;
  }

  get stats(): EmitterStats {
    const [accepted, duplicates, rejected] = [this.#accepted, this.#duplicates, this.#rejected];
    return { waiting: this.waiting, accepted, duplicates, rejected, trouble: this.#trouble };
  }

  /** The event id and the line of a command, which says when it happened and who spoke. Throws TooLarge. */
  encode(command: Command): [eventId: string, line: Uint8Array] {
    const eventId = eventIdOf(command);
    const named = { occurred_at: new Date(), agent_id: this.#agent, ...withoutNull(command), event_id: eventId };
    const line = encodedCommand(named);
    if (line.length > MAX_LINE_BYTES) {
      throw new TooLarge("too_large", `the command has ${line.length} bytes; the limit is ${MAX_LINE_BYTES}`);
    }
    return [eventId, line];
  }

  /** Keep a place for one more, which `put` fills. Throws EmitterFull. */
  reserve(line: Uint8Array): void {
    const size = this.#queue.size + this.#comingBytes + line.length + 1;
    if (this.waiting >= this.#maxEvents) {
      throw new EmitterFull(`${this.waiting} events wait to be acknowledged, the limit`);
    }
    if (size > this.#maxBytes) {
      throw new EmitterFull(`with this event ${size} bytes would wait; the limit is ${this.#maxBytes}`);
    }
    if (this.waiting === 0) this.#oldestMs = performance.now();
    this.#places += 1;
    this.#comingBytes += line.length + 1;
  }

  /** Take these, which have places. Rejects with an error of the file system; they have no places then. */
  async put(lines: readonly Uint8Array[], size: number): Promise<void> {
    try {
      await this.#queue.append(lines);
      this.#put += lines.length;
    } catch (fault) {
      this.#places -= lines.length;
      throw fault;
    } finally {
      this.#comingBytes -= size;
    }
  }

  /** Take no more, and try at once to send what waits. */
  end(): void {
    this.closed = true;
    this.#notBeforeMs = performance.now();
  }

  /** Whether there is nothing to do any more. */
  get isOver(): boolean {
    return this.closed && this.waiting === 0;
  }

  /** Have all that waits sent without delay; the number for `isSettled`. */
  wantAll(): number {
    this.#wanted = this.#put;
    return this.#wanted;
  }

  /** Whether the server has acknowledged or refused so many commands. */
  isSettled(number: number): boolean {
    return this.#settled >= number;
  }

  /** Milliseconds until a batch should be sent; infinite while nothing waits. */
  dueInMs(): number {
    if (this.#queue.count === 0) return Number.POSITIVE_INFINITY;
    const hurry = this.closed || this.#settled < this.#wanted || this.#queue.count >= this.#batchEvents;
    const due = hurry ? this.#notBeforeMs : Math.max(this.#notBeforeMs, this.#oldestMs + this.#flushEveryMs);
    return Math.max(0, due - performance.now());
  }

  /** The next to send; nothing, and trouble, while the spool cannot be read. */
  async batch(): Promise<Uint8Array[]> {
    try {
      return await this.#queue.first(this.#atMost, this.#batchBytes);
    } catch (fault) {
      this.#fail(new EmitterError("spool_unreadable", String(fault), { cause: fault }));
      return [];
    }
  }

  /** Note what became of these, the oldest. Only what the server acknowledged or refused leaves the queue. */
  async settle(lines: readonly Uint8Array[], outcome: BatchAccepted | MnemologError): Promise<void> {
    if (!(outcome instanceof MnemologError)) {
      this.#accepted += outcome.accepted;
      this.#duplicates += outcome.duplicates;
      for (const one of outcome.rejected) await this.#reject(lines[one.index]!, one);
      return this.#done(lines);
    }
    if (!TO_BE_SPLIT.has(outcome.code)) return this.#fail(outcome);
    if (lines.length > 1) {
      this.#atMost = Math.floor(lines.length / 2);
      return;
    }
    const { code, message, field } = outcome;
    await this.#reject(lines[0]!, { index: 0, code, message, ...(field === undefined ? {} : { field }) });
    return this.#done(lines);
  }

  /** Call `onRejected` with what was refused since the last time. */
  async tellRefused(): Promise<void> {
    const refused = this.#refused;
    this.#refused = [];
    for (const [line, rejection] of refused) {
      try {
        await this.#onRejected(commandOf(line), rejection);
      } catch (fault) {
        this.log(`onRejected failed: ${String(fault)}`);
      }
    }
  }

  /** The error of a flush that took too long. */
  notDelivered(): NotDelivered {
    return new NotDelivered(this.waiting, this.#trouble);
  }

  /** Let go of files. */
  close(): Promise<void> {
    return this.#queue.close();
  }

  async #done(lines: readonly Uint8Array[]): Promise<void> {
    await this.#queue.drop(lines);
    this.#settled += lines.length;
    this.#atMost = this.#batchEvents;
    this.#failures = 0;
    this.#trouble = undefined;
    this.#oldestMs = performance.now();
  }

  #fail(error: MnemologError): void {
    this.#failures += 1;
    if (this.#trouble?.code !== error.code) this.log(`${this.waiting} commands wait: ${String(error)}`);
    this.#trouble = error;
    const pauseS = Math.max(AGAIN.pauseS(this.#failures), error.retryAfterS ?? 0);
    this.#notBeforeMs = performance.now() + (this.closed ? Math.min(pauseS, CLOSING_PAUSE_S) : pauseS) * 1000;
  }

  async #reject(line: Uint8Array, rejection: Rejection): Promise<void> {
    this.#rejected += 1;
    const record = new TextEncoder().encode(`{"rejection":${JSON.stringify(rejection)},"command":${textOf(line)}}`);
    const where = (await this.#queue.keepRejected(record)) ? "kept in the spool" : "not kept";
    this.log(`a command was refused, and is ${where}: ${rejection.code}: ${rejection.message}`);
    this.#refused.push([line, rejection]);
  }
}

/** What waits in a folder, or a new queue in memory. Rejects with SpoolInUse and errors of the file system. */
export async function openOutbox(agent: string, folder: string | undefined, options: EmitterOptions): Promise<Outbox> {
  if (folder === undefined) return new Outbox(new InMemory(), agent, options);
  if (!globalThis.process?.versions?.node) {
    throw new EmitterError("no_spool", "a spool needs the file system of Node; without one, commands wait in memory");
  }
  const { Spool } = await import("./spool.ts");
  const { fsync = false, maxBytes = 256 << 20 } = options;
  return new Outbox(await Spool.open(folder, { maxBytes, fsync, log: logOf(options) }), agent, options);
}

/** Logs for a person; a `log` that throws is reported, too, and stops nothing. */
function logOf({ log = (message) => console.warn(`mnemolog: ${message}`) }: EmitterOptions): (message: string) => void {
  return (message) => {
    try {
      log(message);
    } catch (fault) {
      console.error(`mnemolog: ${message} (the option log failed: ${String(fault)})`);
    }
  };
}

function textOf(line: Uint8Array): string {
  return new TextDecoder().decode(line);
}

/** What a line says; a damaged one is its text. */
function commandOf(line: Uint8Array): Command {
  try {
    return JSON.parse(textOf(line)) as Command;
  } catch {
    return { line: textOf(line) } as unknown as Command;
  }
}
