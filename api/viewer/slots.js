// Slots: short texts; pinned ones are part of every agent's context.

import { read, write } from "./api.js";
import { el } from "./dom.js";
import { action, card, chooseProject, confirmed, detail, facts, field, form, head, hint, tag, time } from "./parts.js";
import { may } from "./rights.js";
import { again } from "./route.js";
import { count } from "./text.js";

export const title = "Slots";

export async function show(route) {
  if (route.project === null) return chooseProject("Slots");
  const { items } = await read("/v1/slots", { project: route.project });
  return detail(
    hint("A pinned slot is part of every agent's context in its project; a global slot, in all projects."),
    el(
      "div",
      { class: "slots" },
      items.map((one) => slot(one, route.project)),
    ),
    may("write") && el("details", { class: "card" }, el("summary", {}, "New slot"), creation(route.project)),
  );
}

function slot(one, project) {
  const changeable = !one.read_only && may("write");
  const scope = one.scope === "global" ? { scope: "global" } : { project };
  const size = el("small", {}, `${one.size} of ${count(one.size_limit, "character")}`);
  const text = el(
    "textarea",
    {
      name: "content",
      rows: Math.min(
        12,
        1 + one.content.split("\n").reduce((rows, line) => rows + Math.ceil((line.length + 1) / 48), 0),
      ),
      "aria-label": one.label,
      maxlength: one.size_limit,
      readonly: !changeable,
      oninput: () => {
        size.textContent = `${text.value.length} of ${count(one.size_limit, "character")}`;
      },
    },
    one.content,
  );
  return card(
    head(
      el("h2", {}, one.label),
      tag(one.scope),
      one.pinned && tag("pinned"),
      one.read_only && tag("read only", "old"),
    ),
    one.description && hint(one.description),
    changeable
      ? form([text, size], "Save", async ({ content }) => {
          await write("POST", "/v1/slots", { body: { label: one.label, content, ...scope } });
          return "Saved.";
        })
      : [text, size],
    facts(
      one.agent_id,
      time(one.updated_at),
      one.created_at && changeable && action("Remove…", () => removed(one, scope), "danger"),
    ),
  );
}

async function removed(one, scope) {
  if (
    !(await confirmed(
      `Remove ${one.label}?`,
      "A default slot becomes empty. Its text stays in the log until the project is deleted.",
      "Remove",
    ))
  )
    return "";
  await write("DELETE", `/v1/slots/${one.label}`, { params: scope });
  again();
  return "";
}

function creation(project) {
  const fields = [
    field(
      "Label",
      el("input", { name: "label", required: true, pattern: "[a-z][a-z0-9_]{0,63}" }),
      "a lowercase letter, then lowercase letters, digits or _",
    ),
    field("Text", el("textarea", { name: "content", rows: 3, required: true })),
    el("label", { class: "check" }, el("input", { type: "checkbox", name: "global" }), "for all projects"),
  ];
  return form(
    fields,
    "Create",
    async ({ label, content, global }) => {
      await write("POST", "/v1/slots", {
        body: { label, content, overwrite: false, ...(global ? { scope: "global" } : { project }) },
      });
      again();
      return "Created.";
    },
    { creates: true },
  );
}

export const follows = (event, route) =>
  event.type.startsWith("slot.") && (event.project === route.project || event.project === "");
