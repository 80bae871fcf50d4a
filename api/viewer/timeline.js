// A project's observations by the time they claim, day by day.

import { read } from "./api.js";
import { el } from "./dom.js";
import { chooseProject, empty, field, pages } from "./parts.js";
import { change } from "./route.js";
import { turn } from "./turn.js";

export const title = "Timeline";
const LIMIT = 100;
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });

export async function show(route) {
  if (route.project === null) return chooseProject("Observations");
  const [until, by] = [route.params.get("until") ?? "", route.params.get("by") ?? ""];
  let day = "";
  const list = await pages(
    (cursor) =>
      read("/v1/timeline", {
        project: route.project,
        until: until ? new Date(until).toISOString() : undefined,
        limit: LIMIT,
        cursor,
      }),
    (one) => {
      const its = DAY.format(new Date(one.occurred_at));
      const heading = its !== day && el("h2", { class: "day" }, its);
      day = its;
      return [heading, turn(one, false, one.agent_id && el("span", { class: "quiet" }, one.agent_id))];
    },
    empty(
      "Nothing was observed here",
      until
        ? "Choose a later time."
        : 'An agent\'s hooks record what it does, or `mnemolog observe "…" --project NAME --session ID`.',
    ),
    (one) => !by || one.agent_id === by,
  );
  return el(
    "div",
    {},
    el(
      "form",
      { class: "filter", onsubmit: (event) => event.preventDefault() },
      field(
        "Until",
        el("input", {
          type: "datetime-local",
          id: "until",
          value: until,
          onchange: (event) => change({ until: event.target.value || null }),
        }),
      ),
      field(
        "By agent",
        el("input", {
          type: "search",
          id: "by",
          value: by,
          onchange: (event) => change({ by: event.target.value || null }),
        }),
      ),
    ),
    list,
  );
}

export const follows = (event, route) =>
  event.type === "observation.recorded" && event.project === route.project && !route.params.has("until");
