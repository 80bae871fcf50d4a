// One memory: its text, versions with diffs, sources, and editing.

import { found, read, write } from "./api.js";
import { diff } from "./diff.js";
import { documentLine } from "./documents.js";
import { el } from "./dom.js";
import { forget } from "./forget.js";
import {
  action,
  buttons,
  card,
  changed,
  confirmed,
  detail,
  empty,
  facts,
  field,
  form,
  head,
  hint,
  link,
  list,
  namesField,
  section,
  select,
  table,
  tag,
  textField,
  time,
} from "./parts.js";
import { may } from "./rights.js";
import { go } from "./route.js";
import { count, headed, listed, projectName, when } from "./text.js";

const TYPES = ["episodic", "semantic", "procedural"].map((one) => [one, one]);
const READERS = [
  ["public", "everyone in the tenant"],
  ["shared", "the agents listed below"],
  ["private", "only its owner"],
];

export async function memory(id) {
  const path = `/v1/memories/${encodeURIComponent(id)}`;
  const known = await found(path);
  if (known === null)
    return empty(
      "Memory not found",
      'It was deleted, or you don\'t have access. Try another agent under "Read as".',
      link("All memories", "memories"),
    );
  const { items: versions } = await read(`${path}/history`);
  const [heading, text] = headed(known.title, known.content, Infinity);
  const changeable = known.is_latest && may("write");
  return detail(
    el("p", {}, link(`‹ Memories of ${projectName(known.project)}`, "memories", "", { project: known.project })),
    card(
      head(
        el("h2", { class: "text" }, heading),
        known.visibility !== "public" && tag(known.visibility, "private"),
        !known.is_latest && tag("superseded", "old"),
      ),
      text && el("p", { class: "text" }, text),
      facts(
        known.agent_id && `by ${known.agent_id}`,
        time(known.recorded_at),
        `version ${known.version}`,
        known.confirmations > 0 && `confirmed ${count(known.confirmations, "time")}`,
        known.tags.map((word) => tag(word)),
      ),
      known.superseded_by && el("p", {}, "Newer version: ", link(known.superseded_by, "memories", known.superseded_by)),
      may("write") &&
        buttons(
          action("Confirm: proved correct", () => confirm(id)),
          action("Delete…", () => forgotten(known), "danger"),
        ),
    ),
    changeable && el("details", { class: "card" }, el("summary", {}, "Edit"), edit(known, path)),
    changeable && el("details", { class: "card" }, el("summary", {}, "Who can read it"), readers(known, path)),
    versions.length > 1 && section(count(versions.length, "version"), versionList(versions)),
    section("Source", await provenance(known)),
  );
}

async function confirm(id) {
  const answer = await write("POST", "/v1/confirm", { body: { ids: [id] } });
  return answer.confirmed.length ? "Confirmed." : "Not confirmed: the memory was superseded, or you don't have access.";
}

function edit(known, path) {
  const fields = [
    field("Text", el("textarea", { name: "content", rows: 6, required: true }, known.content)),
    textField("Title", known, "title", { maxlength: 512 }, "An unchanged title is updated with the text."),
    field("Type", select({ name: "memory_type" }, TYPES, known.memory_type)),
    textField("Importance", known, "importance", { type: "number", min: 0, max: 10, step: "any" }),
    namesField("Tags", known, "tags"),
  ];
  return form(fields, "Save as a new version", async (values) => {
    const wanted = { ...values, importance: Number(values.importance), tags: listed(values.tags) };
    const changes = changed(known, wanted);
    if (!Object.keys(changes).length) return "No changes.";
    go("memories", (await write("PATCH", path, { body: changes })).id);
    return "Saved.";
  });
}

function readers(known, path) {
  const fields = [
    field("Readers", select({ name: "visibility" }, READERS, known.visibility)),
    namesField("Shared with", known, "shared_with", "agents, separated by commas; for “the agents listed below”"),
  ];
  return form(fields, "Change", async ({ visibility, shared_with: names }) => {
    await write("PATCH", path, { body: { visibility, shared_with: listed(names) } });
    return "Changed.";
  });
}

async function provenance(known) {
  const sources = await Promise.all(known.derived_from.slice(0, 50).map(documentLine));
  return el(
    "div",
    {},
    table([
      ["Id", known.id],
      ["Project", projectName(known.project)],
      ["Author", known.agent_id],
      ["Owner", known.owner],
      ["Session", known.session_id && link(known.session_id, "sessions", known.session_id, { project: known.project })],
      ["Happened", when(known.occurred_at)],
      ["Recorded", when(known.recorded_at)],
      ["Through", known.source],
      ["Trust", known.trust.replace("_", " ")],
      ["Confirmed", known.confirmed_at && `${count(known.confirmations, "time")}, last ${when(known.confirmed_at)}`],
      ["Valid until", known.valid_until && when(known.valid_until)],
      ["Expires", known.forget_after && when(known.forget_after)],
      ["Model", known.model],
      ["Files", known.files.join(", ")],
      ["Concepts", known.concepts.join(", ")],
      ...Object.entries(known.metadata),
    ]),
    sources.length
      ? el("div", {}, el("h3", {}, `Derived from ${count(known.derived_from.length, "document")}`), list(sources))
      : hint("Recorded directly (not derived from other documents)."),
  );
}

/** Newest first, each with its changes. */
function versionList(versions) {
  const rows = versions.map((one, place) =>
    el(
      "li",
      {},
      facts(
        el("strong", {}, `version ${one.version}`),
        one.agent_id,
        time(one.recorded_at),
        one.superseded_at && `until ${when(one.superseded_at)}`,
      ),
      el("p", { class: "text" }, place ? changes(versions[place - 1].content, one.content) : one.content),
    ),
  );
  return el("ol", { class: "versions", reversed: true }, rows.reverse());
}

const TAGS = { same: "span", gone: "del", new: "ins" };
const changes = (before, after) => diff(before, after).map(([kind, text]) => el(TAGS[kind], {}, text));

async function forgotten(known) {
  const words = `“${known.title}” and its earlier versions are deleted from every store, with everything derived only from them. This cannot be undone.`;
  if (!(await confirmed("Delete this memory?", words, "Delete"))) return "";
  await forget(known);
  return "";
}
