// Lessons: current and future confidence, and editing.

import { found, read, write } from "./api.js";
import { confidenceAt, curve, fadesAt, RETIRE_AT } from "./decay.js";
import { documentLine } from "./documents.js";
import { el, svg } from "./dom.js";
import {
  action,
  buttons,
  card,
  changed,
  checked,
  chooseProject,
  confirmed,
  detail,
  empty,
  facts,
  field,
  filters,
  form,
  head,
  hint,
  link,
  list,
  namesField,
  pages,
  section,
  select,
  table,
  tag,
  textField,
  time,
} from "./parts.js";
import { may } from "./rights.js";
import { again, href } from "./route.js";
import { count, listed, percent, projectName, shortened, when } from "./text.js";

export const title = "Lessons";
const LIMIT = 50;
const SEVERITIES = [
  ["", "none: recalled, but not shown before tools"],
  ["critical", "critical"],
  ["warning", "warning"],
  ["info", "info"],
];
const [WIDTH, HEIGHT] = [240, 60];

export async function show(route) {
  if (route.id) return lesson(route.id);
  if (route.project === null) return chooseProject("Lessons");
  const retired = route.params.has("retired");
  const rows = await pages(
    (cursor) => read("/v1/lessons", { project: route.project, retired, limit: LIMIT, cursor }),
    row,
    empty(
      "This project has no lessons yet",
      "Agents record them with the tool `lesson`; others come from finished actions and `POST /v1/reflect`.",
    ),
  );
  return el("div", {}, filters(checked(route.params, "retired", "Include retired lessons")), rows);
}

const sure = (one) => confidenceAt(one.confidence, Date.parse(one.reinforced_at), Date.now());

function row(one) {
  return el(
    "article",
    { class: "card lesson" },
    el(
      "div",
      {},
      head(
        one.severity && tag(one.severity, one.severity),
        el("h2", {}, link(shortened(one.title || one.content, 120), "lessons", one.id)),
        one.retired_at && tag("retired", "old"),
        !one.active && tag("off", "old"),
      ),
      one.context && el("p", { class: "snippet" }, shortened(one.context, 200)),
      facts(
        one.agent_id,
        time(one.recorded_at),
        one.origin,
        one.reinforcements > 0 && `confirmed ${one.reinforcements} ×`,
        one.trigger_tool && `before ${one.trigger_tool}`,
        one.trigger_count > 0 && `shown ${one.trigger_count} ×`,
      ),
    ),
    chart(one),
  );
}

/** Confidence from the last time the lesson was recorded or confirmed until it is retired, with today's value. */
function chart(one) {
  const since = Date.parse(one.reinforced_at);
  const points = curve(one.confidence, since);
  const end = points.at(-1)[0];
  const x = (at) => Math.min(WIDTH, Math.max(0, ((at - since) / (end - since)) * WIDTH));
  const y = (value) => HEIGHT - value * HEIGHT;
  const now = Math.min(Date.now(), end);
  return el(
    "figure",
    { class: "chart" },
    svg(
      "svg",
      {
        viewBox: `-4 -4 ${WIDTH + 8} ${HEIGHT + 8}`,
        role: "img",
        "aria-label": `${percent(sure(one))} confidence now; ${percent(RETIRE_AT)} on ${when(fadesAt(one.confidence, since))} unless confirmed`,
      },
      svg("line", { class: "limit", x1: 0, x2: WIDTH, y1: y(RETIRE_AT), y2: y(RETIRE_AT) }),
      svg("polyline", {
        class: "curve",
        points: points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
      }),
      svg("circle", { class: "now", cx: x(now), cy: y(sure(one)), r: 4 }),
    ),
    el(
      "figcaption",
      {},
      el("strong", {}, `${percent(sure(one))} confidence`),
      ` now, decays until ${new Date(fadesAt(one.confidence, since)).toLocaleDateString()}`,
    ),
  );
}

async function lesson(id) {
  const path = `/v1/lessons/${encodeURIComponent(id)}`;
  const known = await found(path);
  if (known === null)
    return empty("Lesson not found", "Deleted, or you don't have access.", link("All lessons", "lessons"));
  const sources = await Promise.all(known.derived_from.slice(0, 50).map(documentLine));
  const changeable = !known.retired_at && may("write");
  return detail(
    el("p", {}, link(`‹ Lessons of ${projectName(known.project)}`, "lessons", "", { project: known.project })),
    card(
      head(
        el("h2", {}, known.title || "Lesson"),
        known.severity && tag(known.severity, known.severity),
        known.retired_at && tag("retired", "old"),
        !known.active && tag("off", "old"),
      ),
      el("p", { class: "text" }, known.content),
      known.context && hint(known.context),
      facts(
        known.agent_id && `by ${known.agent_id}`,
        time(known.recorded_at),
        `confirmed ${count(known.reinforcements, "time")}`,
      ),
      chart(known),
      hint(
        `Recorded ${when(known.recorded_at)}; last repeated or confirmed ${when(known.reinforced_at)}, with ${percent(known.confidence)} confidence, the start of the curve.`,
      ),
      changeable &&
        buttons(
          action("Proved correct again", () => done(write("POST", `${path}/reinforce`), "Reinforced.")),
          action(known.active ? "Disable" : "Enable", () =>
            done(
              write("PATCH", path, { body: { active: !known.active } }),
              known.active ? "No longer recalled or shown before tools." : "Recalled and shown again.",
            ),
          ),
          action("Delete…", () => forgotten(known, path), "danger"),
        ),
    ),
    changeable && el("details", { class: "card" }, el("summary", {}, "Edit"), edit(known, path)),
    section(
      "Trigger and source",
      table([
        ["Tool", known.trigger_tool || "any"],
        ["Pattern", known.trigger_pattern || "any"],
        ["Shown", count(known.trigger_count, "time")],
        ["Origin", known.origin],
        ["Tags", known.tags.join(", ")],
        ["Id", known.id],
      ]),
      sources.length > 0 && list(sources),
    ),
  );
}

async function done(request, words) {
  await request;
  again();
  return words;
}

function edit(known, path) {
  const fields = [
    field("Text", el("textarea", { name: "content", rows: 3, required: true }, known.content)),
    field("Context", el("textarea", { name: "context", rows: 2 }, known.context)),
    textField("Title", known, "title", { maxlength: 512 }),
    field("Severity", select({ name: "severity" }, SEVERITIES, known.severity)),
    textField("Tool", known, "trigger_tool", {}, "the tool before which it is shown; leave empty for any tool"),
    textField("Pattern", known, "trigger_pattern", { maxlength: 500 }, "RE2 syntax, matched against the tool's input"),
    namesField("Tags", known, "tags"),
  ];
  return form(fields, "Save", async (values) => {
    const changes = changed(known, { ...values, tags: listed(values.tags) });
    return Object.keys(changes).length ? done(write("PATCH", path, { body: changes }), "Saved.") : "No changes.";
  });
}

async function forgotten(known, path) {
  if (
    !(await confirmed(
      "Delete this lesson?",
      "Deleted from every store, with every event that recorded it. This cannot be undone.",
      "Delete",
    ))
  )
    return "";
  await write("DELETE", path, { params: { reason: "requested in the viewer" } });
  location.hash = href("lessons", "", { project: known.project });
  return "";
}

export const follows = (event, route) =>
  event.type.startsWith("lesson.") && (Boolean(route.id) || event.project === route.project);
