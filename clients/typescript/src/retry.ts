/** How often, and after what pauses, something is tried again. */

export interface RetryOptions {
  readonly attempts?: number | undefined;
  /** For how long a client waits between attempts, all in all. */
  readonly patienceS?: number | undefined;
  readonly firstPauseS?: number | undefined;
  readonly longestPauseS?: number | undefined;
}

/**
 * How often a request is repeated that may succeed later, and for how long its client waits between.
 *
 * Pauses double from `firstPauseS` to `longestPauseS`, each shortened at random by up to half, so that clients which
 * failed together do not come back together. A server that names a time is obeyed, unless that is longer than what is
 * left of `patienceS`: the error comes at once then.
 */
export class Retry implements RetryOptions {
  readonly attempts: number;
  readonly patienceS: number;
  readonly firstPauseS: number;
  readonly longestPauseS: number;

  constructor(options: RetryOptions = {}) {
    this.attempts = options.attempts ?? 6;
    this.patienceS = options.patienceS ?? 20;
    this.firstPauseS = options.firstPauseS ?? 0.1;
    this.longestPauseS = options.longestPauseS ?? 5;
  }

  /** How long to wait after so many failures. */
  pauseS(failures: number, spread: (least: number, most: number) => number = uniform): number {
    const longest = Math.min(this.longestPauseS, this.firstPauseS * 2 ** Math.min(failures - 1, 30));
    return spread(longest / 2, longest);
  }
}

/** Milliseconds for a timer, of seconds; one that is set for longer than a timer can be would go off at once. */
export function timerMs(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

export const ONCE = new Retry({ attempts: 1 });

function uniform(least: number, most: number): number {
  return least + Math.random() * (most - least);
}
