// A project's observations by event time, day by day.

import { read } from "./api.js";
import { el } from "./dom.js";
import { aside, byAgent, chooseProject, empty, filters, pages, typed } from "./parts.js";
import { day } from "./text.js";
import { turn } from "./turn.js";

export const title = "Timeline";
const LIMIT = 100;

export async function show(route) {
  if (route.project === null) return chooseProject("Observations");
  const { params } = route;
  const [until, by] = ["until", "by"].map((name) => params.get(name) ?? "");
  let shownDay = "";
  const rows = await pages(
    (cursor) =>
      read("/v1/timeline", {
        project: route.project,
        until: until ? new Date(until).toISOString() : undefined,
        limit: LIMIT,
        cursor,
      }),
    (one) => {
      const its = day(one.occurred_at);
      const heading = its !== shownDay && el("h2", { class: "day" }, its);
      shownDay = its;
      return [heading, turn(one, false, one.agent_id && aside(one.agent_id))];
    },
    empty(
      "No observations",
      until ? "Choose a later time." : 'Use an agent\'s hooks, or `mnemolog observe "…" --project NAME --session ID`.',
    ),
    (one) => !by || one.agent_id === by,
  );
  return el("div", {}, filters(typed(params, "until", "Until", { type: "datetime-local" }), byAgent(params)), rows);
}

export const follows = (event, route) =>
  event.type === "observation.recorded" && event.project === route.project && !route.params.has("until");
