// The inbox: rules, lessons and memories that the server suggests, to approve, edit or reject.

import { read, write } from "./api.js";
import { el } from "./dom.js";
import { action, buttons, card, chooseProject, empty, facts, field, form, head, hint, link, tag, time } from "./parts.js";
import { may } from "./rights.js";
import { again } from "./route.js";

export const title = "Inbox";
const LIMIT = 50;
const PLACES = { rule: "memories", memory: "memories", contradiction: "memories", lesson: "lessons" };

export async function show(route) {
  if (route.project === null) return chooseProject("Inbox");
  const { items } = await read("/v1/inbox", { project: route.project, limit: LIMIT });
  if (!items.length)
    return empty("Nothing is suggested", "Rules from prompts, and lessons and memories made of sessions, wait here.");
  return el("div", {}, items.map(suggestion));
}

function suggestion(one) {
  const decide = async (decision, content, words) => {
    await write("POST", `/v1/inbox/${encodeURIComponent(one.id)}`, { body: { decision, content } });
    again();
    return words;
  };
  const text = field("Text", el("textarea", { name: "content", rows: 2, required: true }, one.text));
  return card(
    head(tag(one.kind), el("h2", {}, link(one.text, PLACES[one.kind], one.id))),
    facts(time(one.occurred_at)),
    one.evidence.map((source) => hint(source.text)),
    may(one.kind === "contradiction" ? "admin" : "write") &&
      buttons(
        action("Approve", () => decide("approve", "", "Approved.")),
        action("Reject", () => decide("reject", "", "Hidden, and not suggested again."), "danger"),
      ),
    may("write") &&
      el("details", {}, el("summary", {}, "Edit"), form(text, "Approve with this text", ({ content }) =>
        decide("approve", content, "Approved."),
      )),
  );
}

export const follows = (event, route) => event.project === route.project && /^(memory|lesson)\./.test(event.type);
