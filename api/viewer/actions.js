// Actions: a board with a column for each kind of status; each action lists its blockers.

import { found, read, write } from "./api.js";
import { el } from "./dom.js";
import {
  aside,
  buttons,
  chooseProject,
  detail,
  empty,
  facts,
  field,
  form,
  head,
  hint,
  link,
  select,
  tag,
  time,
} from "./parts.js";
import { may } from "./rights.js";
import { again, href } from "./route.js";
import { clock, count, shortened } from "./text.js";

export const title = "Actions";
const LIMIT = 500;
const NEVER = "Won't be done";
const COLUMNS = [
  ["waiting", "To do"],
  ["active", "In progress"],
  ["done", "Done"],
  ["dropped", NEVER],
];
const MEANINGS = {
  done: "done",
  completed: "done",
  complete: "done",
  finished: "done",
  cancelled: "dropped",
  canceled: "dropped",
  discarded: "dropped",
  dropped: "dropped",
  active: "active",
  in_progress: "active",
  started: "active",
  working: "active",
};
const SET = [
  ["pending", "to do"],
  ["active", "in progress"],
  ["done", "done"],
  ["cancelled", "won't be done"],
];
const EDGES = {
  requires: "waits for",
  unlocks: "unlocks",
  spawned_by: "spawned by",
  gated_by: "gated by",
  conflicts_with: "conflicts with",
};

const meaning = (one) => MEANINGS[one.status.toLowerCase().replaceAll("-", "_").replaceAll(" ", "_")] ?? "waiting";

const WAITS = new Set(["requires", "gated_by"]);
/** A finished action has no blockers. */
const isFinished = (one) => ["done", "dropped"].includes(meaning(one));

export async function show(route) {
  const project = route.project ?? (route.id && (await found(`/v1/actions/${encodeURIComponent(route.id)}`))?.project);
  if (project === null || project === undefined) return chooseProject("Actions");
  const [{ items, next }, frontier] = await Promise.all([
    read("/v1/actions", { project, limit: LIMIT }),
    read("/v1/frontier", { project, limit: LIMIT }),
  ]);
  const ready = new Set(frontier.items.map((one) => one.id));
  const byId = new Map(items.map((one) => [one.id, one]));
  const columns = COLUMNS.map(([name, words]) => [
    words,
    items.filter((one) => meaning(one) === name).sort((a, b) => b.priority - a.priority),
  ]).filter(([words, some]) => some.length || words !== NEVER);
  return detail(
    items.length
      ? board(columns, byId, ready, route.id)
      : empty("This project has no actions", "Agents add them with `POST /v1/actions`."),
    next && hint(`Showing the newest ${LIMIT}.`),
    may("write") && el("details", { class: "card" }, el("summary", {}, "New action"), creation(project, items)),
  );
}

function board(columns, byId, ready, chosen) {
  return el(
    "div",
    { class: "board" },
    columns.map(([words, items]) =>
      el(
        "section",
        {},
        el("h2", {}, `${words} `, aside(items.length)),
        items.map((one) => card(one, byId, ready, chosen)),
      ),
    ),
  );
}

function card(one, byId, ready, chosen) {
  const state = select(
    { "aria-label": `Status of ${one.title}`, disabled: !may("write"), onchange: () => changed(one, state, said) },
    SET.some(([value]) => value === one.status) ? SET : [[one.status, one.status], ...SET],
    one.status,
  );
  const said = el("span", { class: "said", role: "status" });
  const made = el(
    "article",
    { class: one.id === chosen ? "card chosen" : "card", id: one.id },
    head(el("h3", {}, one.title), meaning(one) === "waiting" && ready.has(one.id) && tag("ready", "ok")),
    one.description && el("p", { class: "snippet" }, shortened(one.description, 200)),
    one.holder && hint(`Claimed by ${one.holder} until ${clock(one.expires_at)}`),
    one.paths.length > 0 && hint(`Files: ${shortened(one.paths.join(", "), 200)}`),
    el(
      "ul",
      { class: "edges" },
      one.edges
        .filter(({ type }) => !(WAITS.has(type) && isFinished(one)))
        .map((edge) => el("li", {}, dependency(edge, byId))),
    ),
    one.result && hint(shortened(one.result, 200)),
    facts(
      one.assigned_to && `for ${one.assigned_to}`,
      one.agent_id && `by ${one.agent_id}`,
      one.priority !== 0 && `priority ${one.priority}`,
      time(one.updated_at),
      one.crystallized_into && link("saved as a memory", "memories", one.crystallized_into),
    ),
    buttons(
      state,
      one.holder && may("write") && el("button", { type: "button", onclick: () => released(one, said) }, "Release"),
      said,
    ),
  );
  if (one.id === chosen) requestAnimationFrame(() => made.scrollIntoView({ block: "center" }));
  return made;
}

function dependency({ type, target }, byId) {
  const other = byId.get(target);
  const over = other && isFinished(other);
  return [
    aside(`${EDGES[type] ?? type} `),
    other ? el("a", { href: href("actions", target), class: over ? "over" : "" }, shortened(other.title, 80)) : target,
  ];
}

async function changed(one, state, said) {
  try {
    await write("PATCH", `/v1/actions/${encodeURIComponent(one.id)}`, { body: { status: state.value } });
    state.blur();
    again();
  } catch (error) {
    state.value = one.status;
    said.textContent = error.message;
  }
}

async function released(one, said) {
  try {
    await write("POST", `/v1/actions/${encodeURIComponent(one.id)}/release`, { body: { token: one.token } });
    again();
  } catch (error) {
    said.textContent = error.message;
  }
}

function creation(project, items) {
  const open = items.filter((one) => ["waiting", "active"].includes(meaning(one)));
  const fields = [
    field("Title", el("input", { name: "title", required: true, maxlength: 512 })),
    field("Description", el("textarea", { name: "description", rows: 2 })),
    field("Priority", el("input", { name: "priority", type: "number", value: 0 }), "higher is more urgent"),
    field(
      "Waits for",
      select({ name: "requires" }, [["", "nothing"], ...open.map((one) => [one.id, shortened(one.title, 60)])], ""),
      open.length ? "" : `${count(0, "open action")}`,
    ),
  ];
  return form(
    fields,
    "Add action",
    async ({ title: named, description, priority, requires }) => {
      await write("POST", "/v1/actions", {
        body: { project, title: named, description, priority: Number(priority), requires: requires ? [requires] : [] },
      });
      again();
      return "Added.";
    },
    { creates: true },
  );
}

export const follows = (event, route) =>
  event.type.startsWith("action.") && (route.project === null || event.project === route.project);
