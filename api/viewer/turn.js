// One observation: its headline, and its full text when opened.

import { el, fill } from "./dom.js";
import { code, empty, facts, failure, hint, table, tag } from "./parts.js";
import { clock, when } from "./text.js";

export const clockTime = (iso) => el("time", { datetime: iso, title: when(iso) }, clock(iso));

/** A turn is its headline and `more`; its text or output is rendered when it is opened, and loaded by `full` if it was
 * shortened. */
export function turn(one, opened = false, ...more) {
  const full = el("div", { class: "full" });
  const made = el(
    "details",
    {
      class: "card turn",
      open: opened,
      id: one.id,
      ontoggle: () => made.open && !full.childElementCount && say(one, full),
    },
    el(
      "summary",
      {},
      tag(one.kind, one.kind),
      el("span", { class: "headline" }, one.headline || one.title),
      clockTime(one.occurred_at),
      more,
    ),
    full,
  );
  if (opened) requestAnimationFrame(() => made.scrollIntoView({ block: "center" }));
  return made;
}

async function say(one, body) {
  try {
    const all = one.full ? await one.full() : one;
    fill(body, all ? text(all) : empty("Deleted since this page was loaded"));
  } catch (error) {
    fill(body, failure(error));
  }
}

function text(one) {
  const said = one.content && el("p", { class: "text" }, one.content);
  const data = Object.keys(one.data).length > 0 && [
    el("h3", {}, "Sent by the agent"),
    Object.entries(one.data).map(([name, value]) => [
      hint(name),
      code(typeof value === "string" ? value : JSON.stringify(value, null, 2)),
    ]),
  ];
  const files = one.files.length > 0 && facts(one.files.map((name) => tag(name)));
  const rest = table([
    ["Id", one.id],
    ["Agent", one.agent_id],
    ["Recorded", when(one.recorded_at)],
    ["Importance", one.importance],
    ["Concepts", one.concepts.join(", ")],
    ...Object.entries(one.metadata),
  ]);
  return [said, data, files, rest].flat(3).filter(Boolean);
}
