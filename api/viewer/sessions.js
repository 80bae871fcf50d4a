// Sessions, and a single session turn by turn, with its summary.

import { found, read } from "./api.js";
import { el } from "./dom.js";
import { forgetSession } from "./forget.js";
import {
  action,
  buttons,
  byAgent,
  card,
  chosen,
  confirmed,
  detail,
  empty,
  facts,
  filters,
  head,
  hint,
  link,
  list,
  pages,
  section,
  table,
  tag,
  time,
  typed,
} from "./parts.js";
import { may } from "./rights.js";
import { count, projectName, says, shortened, when } from "./text.js";
import { turn } from "./turn.js";

export const title = "Sessions";
const LIMIT = 50;
const TURNS = 100;
const STATUSES = ["active", "ended", "failed"];

export async function show(route) {
  if (route.id) return session(route);
  const { params } = route;
  const [words, status, by] = ["words", "status", "by"].map((name) => params.get(name) ?? "");
  const wanted = (one) =>
    (!status || one.status === status) &&
    (!by || one.agent_id === by) &&
    says(words, one.title, one.id, one.first_prompt);
  const rows = await pages(
    (cursor) => read("/v1/sessions", { project: route.project ?? undefined, limit: LIMIT, cursor }),
    row,
    words || status || by
      ? empty("No sessions match the filter", "Broaden the filter.")
      : empty(
          "No sessions yet",
          'An observation creates one: `mnemolog observe "…" --project NAME --session ID`, or install the hooks with `mnemolog install claude-code`.',
        ),
    wanted,
  );
  return el(
    "div",
    {},
    filters(
      typed(params, "words", "Filter", { placeholder: "title or id" }),
      chosen(params, "status", "Status", [["", "all"], ...STATUSES.map((one) => [one, one])]),
      byAgent(params),
    ),
    rows,
  );
}

function row(one) {
  return card(
    head(
      el(
        "h2",
        {},
        link(shortened(one.title || one.first_prompt || one.id, 120), "sessions", one.id, { project: one.project }),
      ),
      tag(one.status, one.status),
    ),
    facts(
      one.agent_id,
      time(one.updated_at),
      projectName(one.project),
      count(one.observation_count, "turn"),
      one.summarised > 0 && "summarized",
      one.id,
    ),
  );
}

async function session(route) {
  const path = `/v1/sessions/${encodeURIComponent(route.id)}`;
  const within = route.project === null ? {} : { project: route.project };
  const known = await found(path, within);
  if (known === null)
    return empty(
      "Session not found",
      "It is in another project, was deleted, or you don't have access.",
      link("All sessions", "sessions"),
    );
  const summary = known.summarised > 0 ? await found(`${path}/summary`, { project: known.project }) : null;
  const turns = await pages(
    (cursor) => read(`${path}/observations`, { project: known.project, limit: TURNS, cursor }),
    (one) => turn(one, one.id === route.params.get("turn")),
    empty("This session has no observations"),
  );
  return detail(
    el("p", {}, link("‹ Sessions", "sessions")),
    card(
      head(el("h2", {}, known.title || known.first_prompt || known.id), tag(known.status, known.status)),
      facts(
        known.agent_id && `by ${known.agent_id}`,
        projectName(known.project),
        `${when(known.started_at)} to ${known.ended_at ? when(known.ended_at) : "now"}`,
        count(known.observation_count, "turn"),
      ),
      table([
        ["Id", known.id],
        ["Folder", known.cwd],
        ["Agent type", known.agent_type],
        ["Only in the log", known.retired_observations || ""],
      ]),
      buttons(
        link("Replay it", "replay", known.id, { project: known.project }),
        may("admin") && action("Delete this session…", () => forgotten(known), "danger"),
      ),
    ),
    section(
      "Summary",
      summary ? told(summary) : hint(known.status === "active" ? "It is created when the session ends." : "None."),
    ),
    el("section", {}, el("h2", {}, "Turns"), turns),
  );
}

function told(summary) {
  const [outcome, decisions, open] = [summary.narrative, summary.decisions, summary.remaining];
  return el(
    "div",
    {},
    el("h3", {}, "Outcome"),
    el("p", { class: "text" }, outcome || summary.title),
    decisions.length > 0 && [el("h3", {}, "Decisions"), list(decisions, {})],
    open.length > 0 && [el("h3", {}, "Still open"), list(open, {})],
    summary.files.length > 0 && [el("h3", {}, "Files"), facts(summary.files.map((one) => tag(one)))],
    facts(
      `of ${count(summary.observation_count, "turn")}`,
      time(summary.recorded_at),
      summary.model ? `written by ${summary.model}` : "by rule, with sentences from the session",
    ),
  );
}

async function forgotten(known) {
  const words = `Its ${count(known.observation_count, "turn")} are deleted from every store, with its summary and everything derived from them. This cannot be undone.`;
  if (await confirmed("Delete this session?", words, "Delete")) await forgetSession(known);
  return "";
}

export function follows(event, route) {
  if (route.id) return event.session_id === route.id;
  return event.session_id && (route.project === null || event.project === route.project);
}
