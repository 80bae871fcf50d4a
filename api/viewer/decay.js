// Confidence decay of lessons, as in docs/api.md: 0.05 a week, starting after a week. Pure.

const WEEK_MS = 7 * 86400e3;
const RATE = 0.05;
const FLOOR = 0.05;
export const RETIRE_AT = 0.1;

/** The remaining confidence at a time; both times in milliseconds. */
export function confidenceAt(confidence, since, at) {
  const weeks = Math.max(0, (at - since) / WEEK_MS);
  return weeks < 1 ? confidence : Math.max(FLOOR, confidence - RATE * weeks);
}

/** When confidence falls to the level at which an unconfirmed lesson is retired. */
export const fadesAt = (confidence, since) => since + WEEK_MS * Math.max(1, (confidence - RETIRE_AT) / RATE);

/** `[time, confidence]` from `since` until retirement, with the step after a week. */
export function curve(confidence, since) {
  const [week, end] = [since + WEEK_MS, Math.max(fadesAt(confidence, since), since + 2 * WEEK_MS)];
  return [
    [since, confidence],
    [week, confidence],
    [week, confidenceAt(confidence, since, week)],
    [end, confidenceAt(confidence, since, end)],
  ];
}
