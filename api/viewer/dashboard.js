// Server health and live activity; server-wide metrics only for keys with access to them.

import { byProject, countedSince, history, series } from "./activity.js";
import { get } from "./api.js";
import { documentLine } from "./documents.js";
import { el, svg } from "./dom.js";
import { aside, detail, empty, facts, hint, link, list, section, tag, time } from "./parts.js";
import { may } from "./rights.js";
import { count, mib, number, percent, projectName, when } from "./text.js";

export const title = "Dashboard";
export const figures = true;
const RECENT = 20;
const NAMED = 8;
const BACKLOGS = new Set(["late", "embedding"]);
const [MINUTE_MS, HOUR_MS] = [60e3, 3600e3];
/** A long history is shown as far as it has been loaded; metrics are redrawn every few seconds. */
const HISTORY_MS = 100;
const MARKS = { pass: "ok", warn: "warning", fail: "failure" };

export async function show(route) {
  const project = route.project ?? undefined;
  const [ready, diagnosis, { entries }] = await Promise.all([
    get("/readyz", {}, { accept: [503] }),
    may("admin") && get("/v1/diagnose"),
    get("/v1/audit", { operation: "*", limit: RECENT, project }),
    Promise.race([history().catch(() => null), new Promise((resolve) => setTimeout(resolve, HISTORY_MS))]),
  ]);
  return detail(
    health(ready, diagnosis),
    el("div", { class: "tiles" }, ready.vitals && figuresOf(ready).map(tile)),
    eventCounts(route),
    !ready.vitals && hint("Server-wide metrics (pending events, backlog, memory) need an operator key."),
    section(
      route.project === null ? "Recent activity" : `Recent activity in ${projectName(route.project)}`,
      await recent(entries),
    ),
  );
}

/** The results of `mnemolog admin health`. A backlog alone is not a problem: the server is catching up. */
function health(ready, diagnosis) {
  const checks = diagnosis ? diagnosis.checks : [];
  const degraded = ready.degraded ?? [];
  const works = !ready.detail && degraded.every((one) => BACKLOGS.has(one.code));
  const passed = checks.filter((one) => one.status === "pass");
  const found = [
    ...(ready.detail ? [["failure", ready.detail]] : []),
    ...degraded.map((one) =>
      BACKLOGS.has(one.code) ? ["quiet", `Catching up: ${one.message}`] : ["warning", `${one.code}: ${one.message}`],
    ),
    // both responses report the condition, under different names
    ...checks
      .filter((one) => one.status !== "pass" && !degraded.some((it) => it.message === one.message))
      .map((one) => [MARKS[one.status], checked(one)]),
  ];
  return el(
    "section",
    { class: `card status ${works ? "ok" : "warning"}`, id: "health" },
    el("h2", {}, works ? "Reads and writes work" : `The server is ${ready.code ?? ready.status}`),
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
    aside(words),
  );

/** Events in the last minute, hour and day, the hour by project; for one project if one is selected. */
function eventCounts({ project }) {
  const [hour, day] = [series(HOUR_MS, 60, project), series(24 * HOUR_MS, 96, project)];
  const projects = project === null ? byProject().slice(0, NAMED) : [];
  const all = sum(hour);
  const cut = countedSince() > Date.now() - 24 * HOUR_MS + MINUTE_MS;
  return section(
    project === null ? "Events" : `Events in ${projectName(project)}`,
    el(
      "div",
      { class: "charts" },
      chart("Last hour", hour, `${count(hour.at(-1), "event")} in this minute`, "writes"),
      chart("Last day", day, cut ? `the newest, since ${when(countedSince())}` : ""),
      projects.length > 0 &&
        el(
          "div",
          {},
          el("h3", {}, "By project, last hour"),
          el(
            "ul",
            { class: "plain" },
            projects.map(([name, some]) =>
              el(
                "li",
                {},
                link(projectName(name), "diary", "", { project: name }),
                aside(` ${number(some)} (${percent(some / all)})${some < 6 ? "" : `, ${number(some / 60)} a minute`}`),
              ),
            ),
          ),
        ),
    ),
  );
}

const sum = (counts) => counts.reduce((all, some) => all + some, 0);

/** Counts over time as bars, with the total; the highest bar is labeled. */
function chart(heading, counts, words, id = null) {
  const most = Math.max(...counts, 1);
  const bars = counts.map((some, place) =>
    svg("rect", { x: place, y: 40 - (some / most) * 40, width: 0.85, height: (some / most) * 40 }),
  );
  return el(
    "div",
    {},
    el("h3", {}, heading, " ", el("strong", { id }, number(sum(counts)))),
    svg(
      "svg",
      {
        class: "spark",
        viewBox: `0 0 ${counts.length} 40`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${heading}: ${count(sum(counts), "event")}, at most ${number(most)} in one of ${counts.length} bars`,
      },
      bars,
    ),
    hint([words, `highest bar: ${number(Math.max(...counts))}`].filter(Boolean).join("; ")),
  );
}

/** The vital signs, labeled as in `mnemolog admin health`; unknown values are omitted. */
function figuresOf({ vitals, lag, documents }) {
  const waiting = Object.values(lag).reduce((sum, behind) => sum + behind, 0);
  return [
    ["documents", number(documents ?? 0), "in the search index"],
    ["workers", number(vitals.workers), "", vitals.workers ? "" : "warning"],
    [
      "pending",
      count(waiting, "event", "events"),
      waiting > 0 && `catching up; the oldest has waited ${vitals.oldest_pending_s.toFixed(1)} s`,
    ],
    ["dead letters", number(vitals.dead_letters), "", vitals.dead_letters ? "warning" : ""],
    ["to embed", number(vitals.to_embed), ""],
    ["change feeds", `${number(vitals.feed_entries)} entries`, ""],
    vitals.memory_used !== null && [
      "memory",
      mib(vitals.memory_used),
      vitals.memory_limit ? `of ${mib(vitals.memory_limit)}` : "no limit",
    ],
    vitals.disk_free !== null && ["disk", mib(vitals.disk_free), "free"],
    vitals.snapshot_age_s !== null && [
      "newest snapshot",
      `${number(Math.round(vitals.snapshot_age_s / 60))} minutes`,
      "old",
    ],
  ].filter(Boolean);
}

/** The newest writes; the first few with their text. */
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
