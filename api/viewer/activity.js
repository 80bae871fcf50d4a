// How much was written in each of the last sixty seconds, as far as this page knows.

const SECONDS = 60;
const perSecond = new Map();

/** Notes an event, now or at a time in milliseconds. */
export function seen(at = Date.now()) {
  const [second, now] = [Math.floor(at / 1000), Math.floor(Date.now() / 1000)];
  if (second <= now - SECONDS) return;
  perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  for (const old of perSecond.keys()) if (old <= now - SECONDS) perSecond.delete(old);
}

/** Events of each second of the last minute, the oldest first. */
export function lastMinute() {
  const now = Math.floor(Date.now() / 1000);
  return Array.from({ length: SECONDS }, (_, place) => perSecond.get(now - SECONDS + 1 + place) ?? 0);
}
