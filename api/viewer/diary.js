// The diary: for each session, its request, its result in the agent's last message, and the remaining work.

import { found, read } from "./api.js";
import { el, fill } from "./dom.js";
import { byAgent, empty, facts, failure, filters, head, hint, link, list, pages, table, tag } from "./parts.js";
import { current } from "./route.js";
import { count, day, hours, projectName, shortened } from "./text.js";
import { turn } from "./turn.js";

export const title = "Diary";
const LIMIT = 12;
const FEWEST = 5;
const MOST_PAGES = 5;
const TURNS = 100;
const OPENING = 5;
const END_MS = 3 * 60e3;
const MOST_STORIES = 300;
const LONG = 600;
const stories = new Map();

export async function show(route) {
  const by = route.params.get("by") ?? "";
  let shownDay = "";
  const rows = await pages(
    async (cursor) => {
      const page = await sessions(route, cursor, by);
      const items = withoutShort(page.items);
      const its = await Promise.all(items.map((one) => (one.short ? {} : story(one))));
      return { ...page, items: items.map((one, place) => ({ ...one, ...its[place] })) };
    },
    (one) => {
      const its = day(one.updated_at);
      const heading = its !== shownDay && el("h2", { class: "day" }, its);
      shownDay = its;
      return el("div", {}, heading, one.short ? shortSessions(one.short) : entry(one, route));
    },
    empty(
      "No sessions yet",
      "Install the hooks with `mnemolog install claude-code`, or play the demo with `mnemolog admin demo`.",
    ),
  );
  return el("div", {}, filters(byAgent(route.params)), rows);
}

/** A page of sessions; several pages as one if the first ones have few sessions with work. */
async function sessions(route, cursor, by) {
  const items = [];
  let next = cursor;
  for (let read_pages = 0; read_pages < MOST_PAGES; read_pages++) {
    const page = await read("/v1/sessions", { project: route.project ?? undefined, limit: LIMIT, cursor: next });
    items.push(...page.items.filter((one) => !by || one.agent_id === by));
    next = page.next;
    if (!next || items.filter((one) => one.worked).length >= FEWEST) break;
  }
  return { items, next };
}

/** Sessions with each run of those without work as one item. */
function withoutShort(items) {
  const made = [];
  for (const one of items) {
    const last = made.at(-1);
    if (one.worked) made.push(one);
    else if (last?.short && day(last.updated_at) === day(one.updated_at)) last.short.push(one);
    else made.push({ short: [one], updated_at: one.updated_at });
  }
  return made;
}

function shortSessions(some) {
  return el(
    "details",
    { class: "short" },
    el("summary", {}, count(some.length, "short session")),
    some.map((one) =>
      el(
        "article",
        { class: "quiet" },
        link(one.first_prompt || one.title || one.id, "sessions", one.id, { project: one.project }),
      ),
    ),
  );
}

function entry(one, route) {
  const { summary } = one;
  return el(
    "article",
    { class: "card entry" },
    head(
      el(
        "h3",
        {},
        link(shortened(one.title || one.asked || summary?.title || one.id, 120), "sessions", one.id, {
          project: one.project,
        }),
      ),
      one.status !== "ended" && tag(one.status, one.status),
    ),
    facts(one.agent_id, hours(one.started_at, one.updated_at), route.project === null && projectName(one.project)),
    table([
      [one.byUser ? "Asked" : "Began with", shortened(one.asked, LONG)],
      ["Done", shortened(one.done, LONG)],
      ["Decided", one.state.decisions.length ? list(one.state.decisions) : ""],
      ["Left", one.state.remaining.length ? list(one.state.remaining) : ""],
    ]),
    turns(one),
  );
}

/** The details of a session, cached until it changes. */
function story(one) {
  const name = JSON.stringify([
    current().agent,
    one.project,
    one.id,
    one.updated_at,
    one.observation_count,
    one.summarised,
  ]);
  if (stories.size > MOST_STORIES) stories.clear();
  if (!stories.has(name)) {
    const made = readStory(one);
    stories.set(name, made);
    made.catch(() => stories.delete(name));
  }
  return stories.get(name);
}

async function readStory(one) {
  const path = `/v1/sessions/${encodeURIComponent(one.id)}`;
  const since = new Date(Date.parse(one.updated_at) - END_MS).toISOString();
  const isWhole = one.summarised === one.observation_count;
  const [summary, state, first, last] = await Promise.all([
    isWhole ? found(`${path}/summary`, { project: one.project }) : null,
    isWhole ? null : read(`${path}/story`, { project: one.project }),
    one.first_prompt ? { items: [] } : read(`${path}/observations`, { project: one.project, limit: OPENING }),
    read(`${path}/observations`, { project: one.project, limit: TURNS, since }),
  ]);
  const opening = first.items.find((each) => each.turn === "user") ?? first.items[0];
  return {
    summary,
    state: summary ?? state ?? { decisions: [], remaining: [] },
    byUser: Boolean(one.first_prompt) || (opening?.turn === "user"),
    asked: one.first_prompt || said(opening),
    done: said(last.items.findLast((each) => each.turn === "agent")) || summary?.narrative || "",
  };
}

/** The words of a turn, without the text that the host added. */
const said = (each) => each?.words || each?.content || each?.headline || "";

/** A session's turns, loaded when opened; consecutive tool calls are collapsed. */
function turns(one) {
  if (!one.observation_count) return null;
  const body = el("div", {});
  const made = el(
    "details",
    { ontoggle: () => made.open && !body.childElementCount && opened() },
    el("summary", {}, count(one.observation_count, "turn")),
    body,
  );
  return made;

  async function opened() {
    fill(body, hint("…"));
    try {
      const path = `/v1/sessions/${encodeURIComponent(one.id)}/observations`;
      const { items, next } = await read(path, { project: one.project, limit: TURNS });
      fill(body, folded(items), next && link("All turns", "sessions", one.id, { project: one.project }));
    } catch (error) {
      fill(body, failure(error));
    }
  }
}

function folded(items) {
  const parts = [];
  for (const one of items) {
    if (one.turn !== "tool") parts.push(turn(one));
    else if (Array.isArray(parts.at(-1))) parts.at(-1).push(turn(one));
    else parts.push([turn(one)]);
  }
  return parts.map((part) =>
    Array.isArray(part)
      ? el("details", { class: "tools" }, el("summary", {}, count(part.length, "tool call")), part)
      : part,
  );
}

export const follows = (event, route) =>
  Boolean(event.session_id) && (route.project === null || event.project === route.project);
