// The timeline of a replay: turns, memories and lessons in the order in which they happened. No I/O.

/** The most events that are loaded. */
export const MOST = 20_000;
const TEXT = 200;

/** The events of a session or a project; each is stored as one line and loaded in full when opened. */
export class Moments {
  events = [];
  place = -1;

  /** Adds events; the current event stays current. */
  add(some) {
    const shown = this.current;
    this.events.push(...some);
    this.events.sort((a, b) => a.at - b.at || a.ms - b.ms || a.sequence - b.sequence);
    if (shown) this.place = this.events.indexOf(shown);
  }

  get current() {
    return this.events[this.place];
  }

  get last() {
    return this.events.length - 1;
  }

  /** Goes to an event by its index, or to the nearest one. */
  go(place) {
    this.place = Math.min(this.last, Math.max(0, place));
  }

  /** Goes to the last event at or before a time in milliseconds, or to the first event if all are later. */
  seek(at) {
    this.go(this.events.findLastIndex((one) => one.at <= at));
  }

  /** The events up to the current one, newest first, at most `size`. */
  window(size) {
    return this.events.slice(Math.max(0, this.place + 1 - size), this.place + 1).reverse();
  }

  /** For each of `parts` equal parts of the events, the kind in it that comes last in `kinds`, or "". */
  marks(parts, kinds) {
    const found = new Array(parts).fill("");
    this.events.forEach(({ kind }, place) => {
      const part = Math.floor((place * parts) / this.events.length);
      if (kinds.indexOf(kind) > kinds.indexOf(found[part])) found[part] = kind;
    });
    return found;
  }
}

/** An observation, a memory version or a lesson as a line; `from` and `until` say when recall could return it. */
export function event(kind, one) {
  const [ms, sequence] = one.position.split("-").map(Number);
  // `valid_until` is when the next version happened, `superseded_at` when that was recorded, some milliseconds later
  const ends = [one.valid_until, one.superseded_at, one.forget_after, one.retired_at].filter(Boolean).map(Date.parse);
  return {
    kind,
    id: one.id,
    agent: one.agent_id,
    version: one.version ?? 1,
    text: (one.headline || one.content || one.title).slice(0, TEXT),
    at: Date.parse(one.occurred_at ?? one.recorded_at),
    recorded: Date.parse(one.recorded_at),
    until: Math.min(Infinity, ...ends),
    ms,
    sequence,
  };
}

/** The documents that were valid at a time in milliseconds. */
export const knownAt = (all, at) => all.filter((one) => one.at <= at && at < one.until);
