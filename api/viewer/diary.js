// The diary: for each session, its request, its result in the agent's last message, and the remaining work.

import { found, read } from "./api.js";
import { el, fill } from "./dom.js";
import { byAgent, empty, facts, failure, filters, head, hint, link, list, pages, table, tag } from "./parts.js";
import { current } from "./route.js";
import { count, day, hours, projectName, shortened } from "./text.js";
import { turn } from "./turn.js";

export const title = "Diary";
const LIMIT = 12;
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
      const page = await read("/v1/sessions", { project: route.project ?? undefined, limit: LIMIT, cursor });
      const wanted = page.items.filter((one) => !by || one.agent_id === by);
      const its = await Promise.all(wanted.map(story));
      return { ...page, items: wanted.map((one, place) => ({ ...one, ...its[place] })) };
    },
    (one) => {
      const its = day(one.updated_at);
      const heading = its !== shownDay && el("h2", { class: "day" }, its);
      shownDay = its;
      return el("div", {}, heading, entry(one, route));
    },
    empty(
      "No sessions yet",
      "Install the hooks with `mnemolog install claude-code`, or play the demo with `mnemolog demo`.",
    ),
  );
  return el("div", {}, filters(byAgent(route.params)), rows);
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
      ["Decided", summary?.decisions.length ? list(summary.decisions) : ""],
      ["Left", summary?.remaining.length ? list(summary.remaining) : ""],
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
  const [summary, first, last] = await Promise.all([
    one.summarised > 0 ? found(`${path}/summary`, { project: one.project }) : null,
    one.first_prompt ? { items: [] } : read(`${path}/observations`, { project: one.project, limit: OPENING }),
    read(`${path}/observations`, { project: one.project, limit: TURNS, since }),
  ]);
  const opening = first.items.find((each) => speaker(each) === "user") ?? first.items[0];
  return {
    summary,
    byUser: Boolean(one.first_prompt) || (opening && speaker(opening) === "user"),
    asked: one.first_prompt || opening?.content || opening?.headline || "",
    done: last.items.findLast((each) => speaker(each) === "agent")?.content || summary?.narrative || "",
  };
}

/** The author of a turn: "user", "tool" or "agent". */
function speaker({ role, trust, kind, data }) {
  if (role === "user" || trust === "user_stated" || (kind === "conversation" && !role)) return "user";
  return data.tool_name || role.startsWith("tool") || trust === "tool_output" || trust === "external"
    ? "tool"
    : "agent";
}

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
    if (speaker(one) !== "tool") parts.push(turn(one));
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
