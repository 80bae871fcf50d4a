/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The emitter: commands in, batches out, in the background, in order, each once.
 *
 * `emit` resolves when the command is in the queue; a loop sends what waits. Whatever fails is sent again with the same
 * event ids, for as long as the emitter is open: only an answer of the server takes a command out of the queue. One
 * batch is on its way at a time, so what one emitter says of a session stays in order.
 */

import type { BatchAccepted } from "./answers.ts";
import { EmitterClosed, EmitterFull, MnemologError, ServerFault } from "./errors.ts";
import type { Command, OfObservation } from "./fields.ts";
import { batchOf } from "./nouns.ts";
import type { EmitterStats, Outbox } from "./outbox.ts";
import { ONCE, timerMs } from "./retry.ts";
import type { Transport } from "./sending.ts";

const CLOSE_WITHIN_S = 5;
const FLUSH_WITHIN_S = 30;
/** What is written to the queue at once. */
const GROUP_BYTES = 1 << 20;

interface Coming {
  readonly line: Uint8Array;
  readonly taken: () => void;
  readonly failed: (fault: unknown) => void;
}

interface Within {
  readonly timeoutS?: number | undefined;
}

/** Sends in the background. `close` it at the end. */
export class Emitter {
  readonly #transport: Transport;
  readonly #outbox: Outbox;
  /** Rung when a command comes or goes, and at the end. */
  readonly #changed = new Bell();
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  #coming: Coming[] = [];
  /** Resolves when what was emitted last is in the queue, or was refused by it. */
  #lastPut: Promise<void> = Promise.resolve();
  #writing: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(transport: Transport, outbox: Outbox) {
    this.#transport = transport;
    this.#outbox = outbox;
    this.#running = this.#run();
    opened.add(this);
  }

  /** What became of what was emitted. */
  get stats(): EmitterStats {
    return this.#outbox.stats;
  }

  /** Emit an observation; its event id. */
  observe(sessionId: string, content = "", fields: OfObservation = {}): Promise<string> {
    return this.emit({ type: "observe", ...fields, session_id: sessionId, content });
  }

  /**
   * Queue a command of `POST /v1/events`, with its `type`; its event id.
   *
   * Rejects with EmitterFull, or waits for room; with EmitterClosed; TooLarge; or an error of the file system when the
   * spool cannot be written.
   */
  async emit(command: Command): Promise<string> {
    const [eventId, line] = this.#outbox.encode(command);
    while (!this.#hasPlace(line)) await this.#changed.wait(Number.POSITIVE_INFINITY);
    const put = new Promise<void>((taken, failed) => this.#coming.push({ line, taken, failed }));
    this.#lastPut = put.catch(() => undefined); // the caller of emit gets the error
    this.#writing ??= this.#write();
    await put;
    return eventId;
  }

  /** Resolves when the server has acknowledged or refused what was emitted until now; or rejects with NotDelivered. */
  async flush({ timeoutS = FLUSH_WITHIN_S }: Within = {}): Promise<void> {
    const endMs = performance.now() + timeoutS * 1000;
    await this.#lastPut; // and so all before it
    const number = this.#outbox.wantAll();
    this.#changed.ring();
    while (!this.#outbox.isSettled(number)) {
      const leftMs = endMs - performance.now();
      if (leftMs <= 0 || this.#ending.signal.aborted) throw this.#outbox.notDelivered();
      await this.#changed.wait(leftMs);
    }
  }

  /**
   * Send what waits, for so long at most, and stop.
   *
   * What is left stays in the spool, for the next emitter on that folder; without one, this rejects with NotDelivered.
   */
  close({ timeoutS = CLOSE_WITHIN_S }: Within = {}): Promise<void> {
    this.#closing ??= this.#close(timeoutS);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(timeoutS: number): Promise<void> {
    opened.delete(this);
    this.#outbox.end();
    this.#changed.ring();
    await within(this.#running, timeoutS);
    this.#ending.abort(new EmitterClosed());
    this.#changed.ring();
    await this.#writing;
    await this.#outbox.close();
    if (this.#outbox.waiting === 0) return;
    if (!this.#outbox.survives) throw this.#outbox.notDelivered();
    this.#outbox.log(`${this.#outbox.waiting} commands stay in the spool`);
  }

  /** Whether there is room for one more, which is taken; false for who waits for it. */
  #hasPlace(line: Uint8Array): boolean {
    if (this.#outbox.closed) throw new EmitterClosed();
    try {
      this.#outbox.reserve(line);
      return true;
    } catch (fault) {
      if (!(fault instanceof EmitterFull && this.#outbox.blocks && this.#outbox.waiting > 0)) throw fault;
      this.#outbox.wantAll();
      this.#changed.ring();
      return false;
    }
  }

  /** Put what comes into the queue, in groups: many that come at once are one write to the disk. */
  async #write(): Promise<void> {
    await Promise.resolve(); // who emits several at once is in one group
    while (this.#coming.length > 0) {
      const [group, size] = this.#group();
      try {
        await this.#outbox.put(group.map((one) => one.line), size);
        for (const one of group) one.taken();
      } catch (fault) {
        for (const one of group) one.failed(fault);
      }
      this.#changed.ring();
    }
    this.#writing = undefined;
  }

  #group(): [group: Coming[], size: number] {
    let size = 0;
    const beyond = this.#coming.findIndex((one) => {
      size += one.line.length + 1;
      return size > GROUP_BYTES;
    });
    const group = this.#coming.splice(0, beyond < 0 ? this.#coming.length : Math.max(1, beyond));
    return [group, group.reduce((bytes, one) => bytes + one.line.length + 1, 0)];
  }

  async #run(): Promise<void> {
    for (let lines = await this.#next(); lines.length > 0; lines = await this.#next()) {
      const outcome = await this.#attempt(lines);
      if (this.#ending.signal.aborted) return; // the folder may belong to another emitter
      await this.#outbox.settle(lines, outcome);
      this.#changed.ring();
      await this.#outbox.tellRefused();
    }
  }

  /** What is to be sent, once it is due; nothing when the emitter is closed and nothing waits. */
  async #next(): Promise<Uint8Array[]> {
    while (!(this.#ending.signal.aborted || this.#outbox.isOver)) {
      const dueInMs = this.#outbox.dueInMs();
      if (dueInMs === 0) {
        const lines = await this.#outbox.batch();
        if (lines.length > 0) return lines;
        continue;
      }
      await this.#changed.wait(dueInMs, { keepsProcess: false });
    }
    return [];
  }

  async #attempt(lines: readonly Uint8Array[]): Promise<BatchAccepted | MnemologError> {
    try {
      return await this.#transport.send(batchOf(lines), ONCE, this.#ending.signal);
    } catch (fault) {
      if (fault instanceof MnemologError) return fault;
      return new ServerFault("client_fault", String(fault), { cause: fault });
    }
  }
}

/** Something that happens again and again, and those who wait for the next time. */
class Bell {
  readonly #waiting = new Set<() => void>();

  /** Wake all who wait. */
  ring(): void {
    for (const wake of this.#waiting) wake();
  }

  /** Resolves when it rings, or after so long; the process does not end before, unless it may. */
  wait(ms: number, { keepsProcess = true } = {}): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, timerMs(ms / 1000));
      if (!keepsProcess && typeof timer === "object") timer.unref();
      this.#waiting.add(wake);
    });
  }
}

/** Resolves with `work`, or after so many seconds. */
async function within(work: Promise<void>, seconds: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timerMs(seconds));
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}

/** Emitters that were not closed. Node closes them when it has nothing else to do; not on `process.exit`. */
const opened = new Set<Emitter>();

function closeOpened(): void {
  for (const emitter of opened) {
    emitter.close().catch((fault: unknown) => {
      console.error(`mnemolog: the process ends, and an emitter without a spool was not closed: ${String(fault)}`);
    });
  }
}

globalThis.process?.on?.("beforeExit", closeOpened);
