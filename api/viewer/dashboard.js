// How the server is and what happens on it, as it happens; of the server as a whole only to keys that may know.

import { lastMinute } from "./activity.js";
import { get, ifAllowed } from "./api.js";
import { documentLine } from "./documents.js";
import { el, svg } from "./dom.js";
import { empty, facts, tag, time } from "./parts.js";
import { bytes, count, duration, number, projectName } from "./text.js";

export const title = "Dashboard";
export const figures = true;
const RECENT = 20;
const NAMED = 8;
const MARKS = { pass: "ok", warn: "warning", fail: "failure" };

export async function show(route) {
  const project = route.project ?? undefined;
  const [ready, partitions, diagnosis, audit] = await Promise.all([
    get("/readyz", {}, { accept: [503] }),
    ifAllowed("/v1/admin/projections"),
    ifAllowed("/v1/diagnose"),
    ifAllowed("/v1/audit", { operation: "*", limit: RECENT, project }),
  ]);
  return el(
    "div",
    { class: "detail" },
    status(ready),
    el(
      "div",
      { class: "tiles" },
      writes(),
      partitions && ofPartitions(partitions.partitions),
      ready.vitals && ofServer(ready),
    ),
    !partitions &&
      el(
        "p",
        { class: "quiet" },
        "Lag, backlog and memory are of the server as a whole: a key with the role operator shows them.",
      ),
    diagnosis && checks(diagnosis),
    el(
      "section",
      { class: "card" },
      el("h2", {}, route.project === null ? "Recent activity" : `Recent activity in ${projectName(route.project)}`),
      audit ? await recent(audit.entries) : empty("This key may not read"),
    ),
  );
}

function status(ready) {
  const troubles = [...(ready.degraded ?? []), ...(ready.reason ? [{ message: ready.reason }] : [])];
  return el(
    "section",
    { class: `card status ${ready.status === "ready" ? "ok" : "warning"}` },
    el("h2", {}, ready.status === "ready" ? "Reads and writes work" : `The server is ${ready.status}`),
    troubles.map((one) => el("p", {}, one.message)),
  );
}

const tile = (name, value, words, kind = "") =>
  el(
    "div",
    { class: `tile ${kind}` },
    el("span", { class: "name" }, name),
    el("strong", {}, value),
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

function ofPartitions(partitions) {
  const sum = (name) => partitions.reduce((total, one) => total + one[name], 0);
  const orphans = partitions.filter((one) => !one.worker).length;
  return [
    tile(
      "Lag",
      number(sum("lag")),
      orphans ? `${count(orphans, "partition")} without a worker` : "events not applied yet",
      sum("lag") > 1000 || orphans ? "warning" : "",
    ),
    tile("To embed", number(sum("to_embed")), "texts that wait for the model's vector"),
    tile(
      "Dead letters",
      number(sum("dead_letters")),
      "events that could not be applied",
      sum("dead_letters") ? "warning" : "",
    ),
  ];
}

function ofServer({ vitals, documents }) {
  return [
    tile("Documents", number(documents ?? 0), "in the search index"),
    tile("Oldest waiting", duration(vitals.oldest_pending_s ?? 0), "age of the first event that is not applied"),
    tile(
      "Memory",
      bytes(vitals.memory_used ?? 0),
      vitals.memory_limit ? `of ${bytes(vitals.memory_limit)}` : "of the log's server; no limit is set",
    ),
    vitals.disk_free !== null && tile("Disk", bytes(vitals.disk_free), "free for the log"),
    tile("Workers", number(vitals.workers ?? 0), "alive", vitals.workers ? "" : "warning"),
  ];
}

function checks({ status: overall, checks: all, summary }) {
  const bad = all.filter((one) => one.status !== "pass");
  return el(
    "section",
    { class: "card" },
    el("h2", {}, `Checks: ${overall}`),
    bad.map((one) => el("p", { class: MARKS[one.status] }, `${one.name}: ${one.message}`)),
    el(
      "details",
      {},
      el("summary", {}, `${count(summary.pass, "check")} passed`),
      el(
        "ul",
        { class: "plain" },
        all.filter((one) => one.status === "pass").map((one) => el("li", {}, `${one.name}: ${one.message}`)),
      ),
    ),
  );
}

/** The newest writes; the first few with what they say. */
async function recent(entries) {
  if (!entries.length) return empty("Nothing was written here yet");
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
