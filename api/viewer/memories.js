// Memories of a project, and one of them with all of its versions.

import { read } from "./api.js";
import { el } from "./dom.js";
import { memory } from "./memory.js";
import { chooseProject, empty, facts, field, pages, select, tag, time } from "./parts.js";
import { change, href } from "./route.js";
import { headed, shortened } from "./text.js";

export const title = "Memories";
const LIMIT = 50;
const TYPES = ["episodic", "semantic", "procedural"];

export async function show(route) {
  if (route.id) return memory(route.id);
  if (route.project === null) return chooseProject("Memories");
  const { params } = route;
  const [words, type, every] = [
    (params.get("words") ?? "").toLowerCase(),
    params.get("type") ?? "",
    params.has("every"),
  ];
  const wanted = (one) =>
    (!type || one.memory_type === type) &&
    `${one.title} ${one.content} ${one.tags.join(" ")} ${one.agent_id}`.toLowerCase().includes(words);
  const list = await pages(
    (cursor) => read("/v1/memories", { project: route.project, latest: !every, limit: LIMIT, cursor }),
    row,
    words || type
      ? empty("No memory fits the filter", "Make it wider, or search: that finds by meaning, too.")
      : empty(
          "This project has no memories yet",
          'An agent keeps one with the tool `remember`, you with `mnemolog remember "…" --project NAME`.',
        ),
    wanted,
  );
  return el("div", {}, filter(params, type, every), list);
}

function filter(params, type, every) {
  return el(
    "form",
    { class: "filter", onsubmit: (event) => event.preventDefault() },
    field(
      "Filter",
      el("input", {
        type: "search",
        id: "words",
        value: params.get("words") ?? "",
        placeholder: "words, tag or agent",
        onchange: (event) => change({ words: event.target.value || null }),
      }),
    ),
    field(
      "Type",
      select(
        { id: "type", onchange: (event) => change({ type: event.target.value || null }) },
        [["", "all"], ...TYPES.map((one) => [one, one])],
        type,
      ),
    ),
    el(
      "label",
      { class: "check" },
      el("input", {
        type: "checkbox",
        id: "every",
        checked: every,
        onchange: (event) => change({ every: event.target.checked ? "1" : null }),
      }),
      "superseded versions, too",
    ),
  );
}

function row(one) {
  const [heading, text] = headed(one.title, one.content);
  return el(
    "article",
    { class: "card" },
    el(
      "div",
      { class: "head" },
      el("h2", {}, el("a", { href: href("memories", one.id) }, heading)),
      one.visibility !== "public" && tag(one.visibility, "private"),
      !one.is_latest && tag("superseded", "old"),
    ),
    text && el("p", { class: "snippet" }, shortened(text, 300)),
    facts(
      one.agent_id,
      time(one.recorded_at),
      one.memory_type,
      `importance ${one.importance}`,
      one.version > 1 && `version ${one.version}`,
      one.confirmations > 0 && `confirmed ${one.confirmations} ×`,
      one.tags.map((word) => tag(word)),
    ),
  );
}

export const follows = (event, route) =>
  event.type.startsWith("memory.") && (Boolean(route.id) || event.project === route.project);
