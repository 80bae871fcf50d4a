/** A folder where encoded commands wait, for Node. Its files are those of the Python client. */

import { createHash } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { mkdir, open, readdir, readFile, realpath, rename, stat, unlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { platform } from "node:process";

import { SpoolInUse } from "./errors.ts";
import { joined } from "./nouns.ts";
import { sizeOf } from "./waiting.ts";
import type { Waiting } from "./waiting.ts";

const SEGMENT_BYTES = 4 << 20;
/** A spool of little room has four segments, or segments of this size. */
export const SMALLEST_SEGMENT_BYTES = 64 << 10;
const REJECTED_BYTES = 16 << 20;
const BLOCK_BYTES = 1 << 20;
const ENDING = ".ndjson";
const DIGITS = 12;
const NEWLINE = 10;

export interface SpoolOptions {
  readonly maxBytes: number;
  readonly fsync: boolean;
  readonly log: (message: string) => void;
  readonly rejectedBytes?: number;
}

/**
 * A folder of segments, numbered files of lines; what was acknowledged is deleted segment by segment.
 *
 * An appended line has been handed to the operating system when `append` resolves: it survives the end of this process,
 * however that comes. With `fsync` it is on the disk, and survives the machine's end, too. `cursor` says how much of
 * the oldest segment was acknowledged; it may be behind after a crash, and then some is sent again, with the same event
 * ids. What the server refused is kept in `rejected`, a file of lines, up to 16 MiB.
 */
export class Spool implements Waiting {
  readonly survives = true;
  readonly #folder: string;
  readonly #options: SpoolOptions;
  readonly #segmentBytes: number;
  readonly #unlock: () => Promise<void>;
  /** Bytes of each segment, the oldest first. */
  readonly #sizes = new Map<number, number>();
  /** The newest segment, while lines are appended to it. */
  #newest: FileHandle | undefined;
  #offset = 0;
  #count = 0;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(folder: string, options: SpoolOptions, unlock: () => Promise<void>) {
    this.#folder = folder;
    this.#options = options;
    this.#segmentBytes = Math.max(SMALLEST_SEGMENT_BYTES, Math.min(SEGMENT_BYTES, Math.floor(options.maxBytes / 4)));
    this.#unlock = unlock;
  }

  /** What an earlier process left. Rejects with SpoolInUse while another emitter has the folder. */
  static async open(folder: string, options: SpoolOptions): Promise<Spool> {
    await mkdir(folder, { mode: 0o700, recursive: true });
    const spool = new Spool(folder, options, await locked(folder));
    try {
      await spool.#load();
    } catch (fault) {
      await spool.#unlock();
      throw fault;
    }
    return spool;
  }

  get count(): number {
    return this.#count;
  }

  get size(): number {
    return [...this.#sizes.values()].reduce((size, one) => size + one, 0);
  }

  append(lines: readonly Uint8Array[]): Promise<void> {
    return this.#alone(async () => {
      const [number, file] = await this.#appendable();
      const size = this.#sizes.get(number)!;
      try {
        await file.appendFile(joined(lines));
        if (this.#options.fsync) await file.datasync();
      } catch (fault) {
        await file.truncate(size); // half a line would be read as a whole line
        throw fault;
      }
      this.#sizes.set(number, size + sizeOf(lines));
      this.#count += lines.length;
    });
  }

  /** Of the oldest segment only: a batch may be shorter than it could be. */
  first(count: number, size: number): Promise<Uint8Array[]> {
    return this.#alone(async () => {
      const oldest = this.#oldest();
      if (this.#count === 0 || oldest === undefined) return [];
      const left = this.#sizes.get(oldest)! - this.#offset;
      const file = await open(this.#path(oldest), "r");
      try {
        for (let asked = size; ; asked *= 2) {
          const text = await block(file, this.#offset, Math.min(asked, left));
          const lines = linesOf(text, asked === size ? count : 1);
          if (lines.length > 0 || asked >= left) return lines;
        }
      } finally {
        await file.close();
      }
    });
  }

  /**
   * A segment that is acknowledged to its end is deleted, also the newest: the next line begins another.
   *
   * What cannot be noted on the disk is logged; at worst the next process sends it again, with the same event ids.
   */
  drop(lines: readonly Uint8Array[]): Promise<void> {
    return this.#alone(async () => {
      const oldest = this.#oldest()!;
      this.#offset += sizeOf(lines);
      this.#count -= lines.length;
      try {
        if (this.#offset < this.#sizes.get(oldest)!) return await this.#note(oldest);
        if (this.#sizes.size === 1) await this.#endNewest();
        this.#sizes.delete(oldest);
        this.#offset = 0;
        await unlink(this.#path(oldest));
      } catch (fault) {
        this.#options.log(`${this.#folder}: what was sent could not be noted: ${String(fault)}`);
      }
    });
  }

  keepRejected(record: Uint8Array): Promise<boolean> {
    return this.#alone(async () => {
      try {
        const file = await open(join(this.#folder, "rejected"), "a");
        try {
          const { size } = await file.stat();
          if (size + record.length > (this.#options.rejectedBytes ?? REJECTED_BYTES)) return false;
          await file.appendFile(joined([record]));
        } finally {
          await file.close();
        }
      } catch (fault) {
        this.#options.log(`${this.#folder}: what was refused could not be kept: ${String(fault)}`);
        return false;
      }
      return true;
    });
  }

  close(): Promise<void> {
    return this.#alone(async () => {
      await this.#endNewest();
      await this.#unlock();
    });
  }

  /** What `work` resolves to, which is done when all that was asked for before is done. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined); // the caller gets the error
    return done;
  }

  async #load(): Promise<void> {
    const names = (await readdir(this.#folder)).filter((name) => /^\d+\.ndjson$/.test(name));
    for (const number of names.map((name) => Number.parseInt(name, 10)).sort((one, other) => one - other)) {
      this.#sizes.set(number, (await stat(this.#path(number))).size);
    }
    const [noted, offset] = await this.#noted();
    this.#offset = noted === this.#oldest() ? offset : 0;
    for (const [number, size] of [...this.#sizes]) await this.#repair(number, size);
  }

  /** Pass over half a line at the end of a segment, whose `append` never resolved; forget empty segments. */
  async #repair(number: number, size: number): Promise<void> {
    const start = number === this.#oldest() ? this.#offset : 0;
    const [lines, whole] = await wholeLines(this.#path(number), Math.min(start, size));
    if (lines > 0) {
      this.#sizes.set(number, whole);
      this.#count += lines;
      return;
    }
    if (number === this.#oldest()) this.#offset = 0;
    this.#sizes.delete(number);
    await unlink(this.#path(number));
  }

  /** The number of a segment, and how much of it was acknowledged, as far as that was noted. */
  async #noted(): Promise<[number, number]> {
    try {
      const [, number, offset] = /^(\d+) (\d+)$/.exec(await readFile(join(this.#folder, "cursor"), "utf8")) ?? [];
      return [Number(number ?? 0), Number(offset ?? 0)];
    } catch (fault) {
      if (codeOf(fault) === "ENOENT") return [0, 0];
      throw fault;
    }
  }

  async #note(number: number): Promise<void> {
    const beside = join(this.#folder, "cursor.new");
    await writeFile(beside, `${number} ${this.#offset}`);
    await rename(beside, join(this.#folder, "cursor"));
  }

  #oldest(): number | undefined {
    return this.#sizes.keys().next().value;
  }

  #path(number: number): string {
    return join(this.#folder, String(number).padStart(DIGITS, "0") + ENDING);
  }

  /** The segment to append to: another one when that is full. The cursor's number is no later segment's. */
  async #appendable(): Promise<[number, FileHandle]> {
    const newest = [...this.#sizes.keys()].at(-1);
    if (this.#newest !== undefined && newest !== undefined && this.#sizes.get(newest)! < this.#segmentBytes) {
      return [newest, this.#newest];
    }
    await this.#endNewest();
    const number = (newest ?? (await this.#noted())[0]) + 1;
    this.#newest = await open(this.#path(number), "a");
    this.#sizes.set(number, 0);
    if (this.#options.fsync) await fsyncFolder(this.#folder);
    return [number, this.#newest];
  }

  async #endNewest(): Promise<void> {
    const file = this.#newest;
    this.#newest = undefined;
    await file?.close();
  }
}

/** Whole lines of a block, at most so many. */
function linesOf(text: Uint8Array, count: number): Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let start = 0; lines.length < count; ) {
    const end = text.indexOf(NEWLINE, start);
    if (end < 0) break;
    lines.push(text.subarray(start, end));
    start = end + 1;
  }
  return lines;
}

async function block(file: FileHandle, from: number, size: number): Promise<Uint8Array> {
  const { buffer, bytesRead } = await file.read(new Uint8Array(size), 0, size, from);
  return buffer.subarray(0, bytesRead);
}

/** How many whole lines a file has behind `from`, and where the last one ends. */
async function wholeLines(path: string, from: number): Promise<[number, number]> {
  const file = await open(path, "r");
  try {
    let lines = 0;
    let end = from;
    for (let at = from; ; ) {
      const text = await block(file, at, BLOCK_BYTES);
      if (text.length === 0) return [lines, end];
      for (let found = text.indexOf(NEWLINE); found >= 0; found = text.indexOf(NEWLINE, found + 1)) {
        lines += 1;
        end = at + found + 1;
      }
      at += text.length;
    }
  } finally {
    await file.close();
  }
}

async function fsyncFolder(folder: string): Promise<void> {
  if (platform === "win32") return; // it opens no folder
  const file = await open(folder, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Take the lock of a folder, which ends with this process; what gives it back. Rejects with SpoolInUse.
 *
 * Node has no flock: on Linux and Windows the lock is a name to listen at that leaves no file behind, on macOS and BSD
 * a file that is opened with a lock.
 */
async function locked(folder: string): Promise<() => Promise<void>> {
  const { dev, ino } = await stat(folder);
  switch (platform) {
    case "linux":
    case "android":
      return listening(`\0mnemolog-spool-${dev}-${ino}`, folder);
    case "win32": {
      const name = createHash("sha256").update(await realpath(folder)).digest("hex");
      return listening(`\\\\.\\pipe\\mnemolog-spool-${name}`, folder);
    }
    default:
      return openedAlone(join(folder, "lock"), folder);
  }
}

function listening(name: string, folder: string): Promise<() => Promise<void>> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once("error", (fault) => reject(codeOf(fault) === "EADDRINUSE" ? new SpoolInUse(folder) : fault));
    server.listen(name, () => {
      server.unref();
      resolve(() => new Promise((closed) => server.close(() => closed())));
    });
  });
}

const EXCLUSIVE_LOCK = 0x20; // O_EXLOCK of macOS and BSD

async function openedAlone(path: string, folder: string): Promise<() => Promise<void>> {
  const { O_CREAT, O_NONBLOCK, O_RDWR } = constants;
  try {
    const file = await open(path, O_CREAT | O_RDWR | O_NONBLOCK | EXCLUSIVE_LOCK, 0o600);
    return () => file.close();
  } catch (fault) {
    if (codeOf(fault) === "EAGAIN") throw new SpoolInUse(folder);
    throw fault;
  }
}

function codeOf(fault: unknown): unknown {
  return fault instanceof Error && "code" in fault ? fault.code : undefined;
}
