/** Positions: what a write answers and a read waits for. */

const ONE = /^(\d+):(\d+)-(\d+)$/;

interface Place {
  readonly partition: number;
  readonly ms: number;
  readonly seq: number;
}

/**
 * The newest position in each partition of the log that was included.
 *
 * As text it is what reads take as `after`: `<partition>:<ms>-<seq>`, joined by commas, empty when nothing was
 * included. It is never longer than one position for each partition, however many were included.
 */
export class Position {
  readonly #newest = new Map<number, Place>();

  constructor(text = "") {
    this.include(text);
  }

  /** Cover one more position, or several joined by commas. Throws RangeError for an invalid position. */
  include(text: string): void {
    const places = text.split(",").filter(Boolean).map(read);
    for (const place of places) {
      const newest = this.#newest.get(place.partition);
      if (newest === undefined || isBefore(newest, place)) this.#newest.set(place.partition, place);
    }
  }

  toString(): string {
    const places = [...this.#newest.values()].sort((one, other) => one.partition - other.partition);
    return places.map(({ partition, ms, seq }) => `${partition}:${ms}-${seq}`).join(",");
  }
}

function isBefore(one: Place, other: Place): boolean {
  return one.ms < other.ms || (one.ms === other.ms && one.seq < other.seq);
}

function read(text: string): Place {
  const [, partition, ms, seq] = ONE.exec(text) ?? [];
  if (partition === undefined) {
    throw new RangeError(`'${text.slice(0, 80)}' is not a position; expected <partition>:<ms>-<seq>`);
  }
  return { partition: Number(partition), ms: Number(ms), seq: Number(seq) };
}
