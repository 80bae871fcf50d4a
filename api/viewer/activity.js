// Event counts per minute for the last day, by project: read once from the log, then updated live.

import { get } from "./api.js";

const MINUTE_MS = 60e3;
const DAY_MS = 24 * 60 * MINUTE_MS;
const [PAGE, PAGES] = [1000, 20];
const minutes = new Map();
let begun = 0;
let counting = null;
/** Incremented when the counts are reset, so that a read that began earlier adds nothing. */
let run = 0;
/** Events before this time are not counted, because there are more than PAGE * PAGES. */
let since = 0;

/** Counts an event from the live stream. */
export function seen({ recorded_at: recorded, project }) {
  if (begun && Date.parse(recorded) >= begun) add(Date.parse(recorded), project);
}

function add(at, project) {
  const minute = Math.floor(at / MINUTE_MS);
  const projects = minutes.get(minute) ?? minutes.set(minute, new Map()).get(minute);
  projects.set(project, (projects.get(project) ?? 0) + 1);
}

/** Resets the counts because some events were missed; the next `history` reads them again. */
export function missed() {
  [begun, counting] = [0, null];
  run += 1;
}

/** Reads the last day's events, newest first, at most PAGE * PAGES; resolves when done. */
export function history() {
  const mine = run;
  counting ??= count(mine).catch((error) => {
    if (mine === run) missed();
    throw error;
  });
  return counting;
}

async function count(mine) {
  minutes.clear();
  begun = Date.now();
  since = begun;
  const bounds = { recorded_since: new Date(begun - DAY_MS).toISOString(), recorded_until: new Date(begun).toISOString() };
  let cursor;
  for (let page = 0; page < PAGES; page += 1) {
    const { entries, next } = await get("/v1/audit", { operation: "*", limit: PAGE, cursor, ...bounds });
    if (mine !== run) return history();
    for (const { at, project } of entries) add(Date.parse(at), project);
    cursor = next;
    if (!cursor || !entries.length) {
      since = begun - DAY_MS;
      return;
    }
    since = Date.parse(entries.at(-1).at);
  }
}

/** The time since which all events are counted. */
export const countedSince = () => Math.max(since, Date.now() - DAY_MS);

/** Event counts for `parts` equal intervals up to now, oldest first. */
export function series(spanMs, parts, project = null) {
  const first = Math.floor((Date.now() - spanMs) / MINUTE_MS) + 1;
  const counts = new Array(parts).fill(0);
  for (const [minute, projects] of minutes) {
    const part = Math.floor(((minute - first) * MINUTE_MS * parts) / spanMs);
    if (part >= 0 && part < parts) counts[part] += project === null ? total(projects) : (projects.get(project) ?? 0);
  }
  return counts;
}

const total = (projects) => [...projects.values()].reduce((sum, some) => sum + some, 0);

/** Event counts by project for the last hour, largest first. */
export function byProject() {
  const first = Math.floor(Date.now() / MINUTE_MS) - 59;
  const counts = new Map();
  for (const [minute, projects] of minutes)
    if (minute >= first) for (const [name, some] of projects) counts.set(name, (counts.get(name) ?? 0) + some);
  return [...counts].sort(([, a], [, b]) => b - a);
}
