/** How often, and after what pauses, something is tried again. */

import type { MnemologError } from "./errors.ts";

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

/** The attempts at one request, each of which has failed. */
export class Attempts {
  readonly #retry: Retry;
  #failures = 0;
  #waitedS = 0;

  constructor(retry: Retry) {
    this.#retry = retry;
  }

  /** How long to wait after this failure; throws it when repeating is useless, or was tried for long enough. */
  pauseS(error: MnemologError): number {
    this.#failures += 1;
    const pauseS = error.retryAfterS ?? this.#retry.pauseS(this.#failures);
    const isLast = this.#failures >= this.#retry.attempts || this.#waitedS + pauseS > this.#retry.patienceS;
    if (isLast || !error.retryable) throw error;
    this.#waitedS += pauseS;
    return pauseS;
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
