/** Where encoded commands wait until the server has acknowledged them, in order: here in memory. */

/** Commands in the order they came, each a line of JSON without its end. */
export interface Waiting {
  /** Whether what waits is still there when the process has ended. */
  readonly survives: boolean;
  /** How many there are. */
  readonly count: number;
  /** Bytes of memory or disk, with the end of each line. */
  readonly size: number;
  /** Take these, all or none. */
  append(lines: readonly Uint8Array[]): Promise<void>;
  /** The oldest, at most `count` and, if more than one, about `size` bytes. They stay. */
  first(count: number, size: number): Promise<Uint8Array[]>;
  /** Forget the oldest, which are these. */
  drop(lines: readonly Uint8Array[]): Promise<void>;
  /** Keep what the server refused for a person to look at; false when there is no place for it. */
  keepRejected(record: Uint8Array): Promise<boolean>;
  /** Let go of files; what waits stays in them. */
  close(): Promise<void>;
}

/** Ends with its process, and all that waits with it. */
export class InMemory implements Waiting {
  readonly survives = false;
  readonly #lines: Uint8Array[] = [];
  #size = 0;

  get count(): number {
    return this.#lines.length;
  }

  get size(): number {
    return this.#size;
  }

  async append(lines: readonly Uint8Array[]): Promise<void> {
    this.#lines.push(...lines);
    this.#size += sizeOf(lines);
  }

  async first(count: number, size: number): Promise<Uint8Array[]> {
    const taken: Uint8Array[] = [];
    for (let left = size; taken.length < count && taken.length < this.#lines.length; ) {
      const line = this.#lines[taken.length]!;
      left -= line.length + 1;
      if (taken.length > 0 && left < 0) break;
      taken.push(line);
    }
    return taken;
  }

  async drop(lines: readonly Uint8Array[]): Promise<void> {
    this.#lines.splice(0, lines.length);
    this.#size -= sizeOf(lines);
  }

  async keepRejected(): Promise<boolean> {
    return false;
  }

  async close(): Promise<void> {}
}

/** Bytes of lines with their ends. */
export function sizeOf(lines: readonly Uint8Array[]): number {
  return lines.reduce((size, line) => size + line.length + 1, 0);
}
