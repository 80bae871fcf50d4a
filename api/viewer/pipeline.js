// From the log to the documents: partitions and their workers, dead letters, rebuilds, the embedder.

import { found, get, post } from "./api.js";
import { el } from "./dom.js";
import {
  action,
  aside,
  buttons,
  card,
  chosen,
  code,
  confirmed,
  detail,
  empty,
  facts,
  field,
  filters,
  head,
  hint,
  pages,
  section,
  tag,
  time,
} from "./parts.js";
import { may } from "./rights.js";
import { again } from "./route.js";
import { count, duration, number, percent, when } from "./text.js";

export const title = "Pipeline";
export const figures = true;
const LIMIT = 50;
const [LOOKS, LOOK_MS] = [50, 500];
const STATES = [
  ["", "waiting"],
  ["discarded", "discarded"],
];
const OVER = new Set(["switched", "rolled_back", "cancelled", "failed"]);

const COLUMNS = [
  ["partition", "one of the streams that the log is divided into"],
  ["applied to", "position of the last event applied to the documents"],
  ["pending", "events that are not applied yet"],
  ["to embed", "texts that wait for an embedding; until then, search matches them by words and static vectors"],
  ["feed", "document changes that the search index reads; trimmed after a snapshot"],
  ["dead letters", "events that could not be applied; listed below"],
  ["generation", "the version of the documents that reads use; a rebuild creates the next one"],
  ["worker", "the worker that holds the partition's lease (the end of its name)"],
];

export async function show(route) {
  if (!may("operator") && !may("admin"))
    return empty(
      "This key cannot see the pipeline",
      "Partitions and rebuilds need an operator key; dead letters need an operator or admin key.",
    );
  const [progress, rebuilds, diagnosis, letters] = await Promise.all([
    may("operator") && get("/v1/admin/projections"),
    may("operator") && get("/v1/admin/rebuilds"),
    may("operator") && get("/v1/diagnose", { categories: "embedding" }),
    get("/v1/admin/dead-letters", lettersOf(route)),
  ]);
  const embedder = diagnosis && diagnosis.checks.find((one) => one.name === "embedder");
  return detail(
    progress &&
      section(
        count(progress.partitions.length, "partition"),
        el(
          "div",
          { class: "wide", tabindex: 0, role: "region", "aria-label": "Partitions" },
          partitions(progress.partitions),
        ),
        el(
          "dl",
          { class: "pairs columns" },
          COLUMNS.map(([words, meaning]) => [el("dt", {}, words), el("dd", {}, meaning)]),
        ),
      ),
    embedder && section("Embedder", el("p", {}, embedder.message)),
    rebuilds && section("Rebuilds", rebuildList(rebuilds.rebuilds)),
    !progress && hint("Partitions and rebuilds need an operator key."),
    section("Dead letters", await letterList(route, letters)),
  );
}

function partitions(all) {
  return el(
    "table",
    { class: "grid" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        COLUMNS.map(([words], place) => el("th", { scope: "col", class: place > 1 && place < 7 && "figure" }, words)),
      ),
    ),
    el(
      "tbody",
      {},
      all.map((one) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, `p${String(one.partition).padStart(2, "0")}`),
          el("td", {}, one.checkpoint || "nothing yet"),
          [one.lag, one.to_embed, one.feed, one.dead_letters, one.generation].map((value) =>
            el("td", { class: "figure" }, number(value)),
          ),
          el(
            "td",
            {},
            one.worker ? el("span", { title: one.worker }, `…${one.worker.slice(-6)}`) : tag("no worker", "warning"),
          ),
        ),
      ),
    ),
  );
}

function rebuildList(all) {
  const running = all.some((one) => !OVER.has(one.state));
  return el(
    "div",
    {},
    hint(
      "A rebuild recreates all documents from the log in the background, compares them with the current ones and switches.",
    ),
    !running && buttons(action("Rebuild all documents…", begin)),
    el(
      "ul",
      { class: "plain" },
      all.map((one) =>
        el(
          "li",
          { class: "rebuild" },
          facts(
            tag(one.state, one.state),
            one.what,
            one.model,
            time(one.started_at),
            one.rate > 0 && !OVER.has(one.state) && `${number(one.rate)} a second`,
            one.estimate_s !== null && !OVER.has(one.state) && `${duration(one.estimate_s)} left`,
          ),
          !OVER.has(one.state) &&
            el(
              "label",
              {},
              el("progress", { max: one.total || 1, value: one.done }),
              ` ${percent(one.total ? one.done / one.total : 0)}`,
            ),
          one.why && el("p", { class: "warning" }, one.why),
          buttons(
            ["running", "comparing", "ready"].includes(one.state) && action("Cancel", () => step(one, "cancel")),
            one.state === "ready" && action("Switch", () => step(one, "switch"), "primary"),
            one.state === "switched" &&
              one.can_roll_back_until &&
              action(`Roll back (until ${when(one.can_roll_back_until)})`, () => step(one, "rollback")),
          ),
        ),
      ),
    ),
  );
}

async function begin() {
  if (
    !(await confirmed(
      "Rebuild all documents?",
      "Reads are not interrupted. Workers rebuild in the background and switch automatically once the results match; you can roll back for a while.",
      "Rebuild",
    ))
  )
    return "";
  const made = await post("/v1/admin/rebuilds", {});
  again();
  return `Started: ${made.id}.`;
}

async function step(rebuild, name) {
  await post(`/v1/admin/rebuilds/${rebuild.id}/${name}`);
  again();
  return "";
}

const stateOf = (route) => route.params.get("letters") ?? "parked";
const lettersOf = (route) => ({ limit: LIMIT, state: stateOf(route) });

async function letterList(route, first) {
  const counts =
    first.counts &&
    facts(Object.entries(first.counts).map(([name, amount]) => `${number(amount)} ${name.replaceAll("_", " ")}`));
  const rows = await pages(
    async (cursor) => {
      const page = cursor ? await get("/v1/admin/dead-letters", { ...lettersOf(route), cursor }) : first;
      return { items: page.dead_letters, next: page.next };
    },
    letter,
    hint(stateOf(route) === "parked" ? "None; every event was applied." : "None discarded."),
  );
  return el("div", {}, counts, filters(chosen(route.params, "letters", "Shown", STATES)), rows);
}

function letter(one) {
  return card(
    head(tag(one.code, "failed"), el("h3", {}, one.type), aside(one.position)),
    el("p", {}, one.message),
    facts(
      count(one.attempts, "attempt"),
      time(one.parked_at),
      one.redrive_requested && "retry requested",
      one.discarded && `discarded: ${one.discarded.reason}`,
    ),
    one.event && el("details", {}, el("summary", {}, "Event"), code(JSON.stringify(one.event, null, 2))),
    buttons(
      action("Try again", () => triedAgain(one)),
      !one.discarded && action("Discard…", () => discarded(one), "danger"),
    ),
  );
}

/** Has a worker retry it, and returns the result. */
async function triedAgain({ position }) {
  await post("/v1/admin/dead-letters/redrive", { position });
  for (let look = 0; look < LOOKS; look += 1) {
    await new Promise((resolve) => {
      setTimeout(resolve, LOOK_MS);
    });
    const now = await found(`/v1/admin/dead-letters/${encodeURIComponent(position)}`);
    if (now === null) return "Applied.";
    if (!now.redrive_requested) return `It failed again, after ${count(now.attempts, "attempt")}: ${now.message}`;
  }
  return "A worker will retry it.";
}

async function discarded(one) {
  const reason = el("input", { name: "reason", required: true, maxlength: 512 });
  const words = "It will not be applied. The reason is stored with it.";
  if (!(await confirmed("Discard this event?", words, "Discard", field("Reason", reason)))) return "";
  await post("/v1/admin/dead-letters/discard", { position: one.position, reason: reason.value });
  again();
  return "Discarded.";
}

export const follows = () => false;
