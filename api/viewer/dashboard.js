// How the server is and what happens on it, as it happens; of the server as a whole only to keys that may know.

import { lastMinute } from "./activity.js";
import { get } from "./api.js";
import { documentLine } from "./documents.js";
import { el, svg } from "./dom.js";
import { empty, facts, list, section, tag, time } from "./parts.js";
import { may } from "./rights.js";
import { count, mib, number, projectName } from "./text.js";

export const title = "Dashboard";
export const figures = true;
const RECENT = 20;
const NAMED = 8;
const MARKS = { pass: "ok", warn: "warning", fail: "failure" };

export async function show(route) {
  const project = route.project ?? undefined;
  const [ready, diagnosis, { entries }] = await Promise.all([
    get("/readyz", {}, { accept: [503] }),
    may("admin") && get("/v1/diagnose"),
    get("/v1/audit", { operation: "*", limit: RECENT, project }),
  ]);
  return el(
    "div",
    { class: "detail" },
    health(ready, diagnosis),
    el("div", { class: "tiles" }, writes(), ready.vitals && figuresOf(ready).map(tile)),
    !ready.vitals &&
      el(
        "p",
        { class: "quiet" },
        "Lag, backlog and memory are for the whole server; they need an operator key.",
      ),
    section(
      route.project === null ? "Recent activity" : `Recent activity in ${projectName(route.project)}`,
      await recent(entries),
    ),
  );
}

/** What `mnemolog health` finds, in its words. */
function health(ready, diagnosis) {
  const checks = diagnosis ? diagnosis.checks : [];
  const passed = checks.filter((one) => one.status === "pass");
  const found = [
    ...(ready.detail ? [["failure", ready.detail]] : []),
    ...(ready.degraded ?? []).map((one) => ["warning", `${one.code}: ${one.message}`]),
    // a condition is in both answers, under both of its names
    ...checks.filter((one) => one.status !== "pass" && !(ready.degraded ?? []).some((it) => it.message === one.message)).map((one) => [MARKS[one.status], checked(one)]),
  ];
  return el(
    "section",
    { class: `card status ${ready.status === "ready" ? "ok" : "warning"}`, id: "health" },
    el("h2", {}, ready.status === "ready" ? "Reads and writes work" : `The server is ${ready.code ?? ready.status}`),
    found.map(([kind, words]) => el("p", { class: kind }, words)),
    passed.length > 0 &&
      el("details", {}, el("summary", {}, `${count(passed.length, "check")} passed`), list(passed.map(checked))),
  );
}

const checked = (one) => `${one.category}/${one.name}: ${one.message}`;

const tile = ([name, value, words, kind = ""]) =>
  el(
    "div",
    { class: `tile ${kind}` },
    el("span", { class: "name" }, name),
    " ",
    el("strong", {}, value),
    " ",
    el("span", { class: "quiet" }, words),
  );

function writes() {
  const seconds = lastMinute();
  const total = seconds.reduce((sum, one) => sum + one, 0);
  const most = Math.max(...seconds, 1);
  const bars = seconds.map((one, place) =>
    svg("rect", { x: place, y: 20 - (one / most) * 20, width: 0.8, height: (one / most) * 20 }),
  );
  return el(
    "div",
    { class: "tile wide" },
    el("span", { class: "name" }, "Events in the last minute"),
    el("strong", { id: "writes" }, number(total)),
    svg(
      "svg",
      {
        class: "spark",
        viewBox: "0 0 60 20",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${total} events in the last minute, at most ${Math.max(...seconds)} in a second`,
      },
      bars,
    ),
  );
}

/** The vital signs, in the words of `mnemolog health`; unknown values are left out. */
function figuresOf({ vitals, lag, documents }) {
  const waiting = Object.values(lag).reduce((sum, behind) => sum + behind, 0);
  return [
    ["documents", number(documents ?? 0), "in the search index"],
    ["workers", number(vitals.workers), "", vitals.workers ? "" : "warning"],
    [
      "pending",
      `${number(waiting)} events,`,
      `the oldest for ${vitals.oldest_pending_s.toFixed(1)} s`,
      waiting > 1000 ? "warning" : "",
    ],
    ["dead letters", number(vitals.dead_letters), "", vitals.dead_letters ? "warning" : ""],
    ["to embed", number(vitals.to_embed), ""],
    ["change feeds", `${number(vitals.feed_entries)} entries`, ""],
    vitals.memory_used !== null && [
      "memory",
      mib(vitals.memory_used),
      `of ${vitals.memory_limit ? mib(vitals.memory_limit) : "any amount"}`,
    ],
    vitals.disk_free !== null && ["disk", mib(vitals.disk_free), "free"],
    vitals.snapshot_age_s !== null && [
      "newest snapshot",
      `${number(Math.round(vitals.snapshot_age_s / 60))} minutes`,
      "old",
    ],
  ].filter(Boolean);
}

/** The newest writes; the first few with what they say. */
async function recent(entries) {
  if (!entries.length) return empty("No activity yet");
  const lines = await Promise.all(
    entries.map((one, place) =>
      place < NAMED && one.targets.length === 1 && !one.erased ? documentLine(one.targets[0]) : null,
    ),
  );
  return el(
    "ul",
    { class: "rows activity", id: "activity" },
    entries.map((one, place) =>
      el(
        "li",
        {},
        facts(
          tag(one.operation),
          time(one.at),
          one.agent_id,
          projectName(one.project),
          one.reason && `because ${one.reason}`,
        ),
        lines[place] && el("p", {}, lines[place]),
      ),
    ),
  );
}

export const follows = () => true;
