// A project's memories, and a single memory with all of its versions.

import { read } from "./api.js";
import { el } from "./dom.js";
import { memory } from "./memory.js";
import {
  byAgent,
  card,
  checked,
  chooseProject,
  chosen,
  empty,
  facts,
  filters,
  head,
  link,
  pages,
  tag,
  time,
  typed,
} from "./parts.js";
import { headed, says, shortened, when } from "./text.js";

export const title = "Memories";
const LIMIT = 50;
const TYPES = ["episodic", "semantic", "procedural"];

export async function show(route) {
  if (route.id) return memory(route.id);
  if (route.project === null) return chooseProject("Memories");
  const { params } = route;
  const [words, type, by] = ["words", "type", "by"].map((name) => params.get(name) ?? "");
  const wanted = (one) =>
    (!type || one.memory_type === type) &&
    (!by || one.agent_id === by) &&
    says(words, one.title, one.content, ...one.tags);
  const rows = await pages(
    (cursor) => read("/v1/memories", { project: route.project, latest: !params.has("every"), limit: LIMIT, cursor }),
    row,
    words || type || by
      ? empty("No memories match the filter", "Broaden the filter, or use search, which also matches by meaning.")
      : empty(
          "This project has no memories yet",
          'Agents save them with the tool `remember`, you with `mnemolog remember "…" --project NAME`.',
        ),
    wanted,
  );
  return el(
    "div",
    {},
    filters(
      typed(params, "words", "Filter", { placeholder: "words or a tag" }),
      chosen(params, "type", "Type", [["", "all"], ...TYPES.map((one) => [one, one])]),
      byAgent(params),
      checked(params, "every", "Include superseded versions"),
    ),
    rows,
  );
}

function row(one) {
  const [heading, text] = headed(one.title, one.content);
  return card(
    head(
      el("h2", {}, link(heading, "memories", one.id)),
      one.visibility !== "public" && tag(one.visibility, "private"),
      !one.is_latest && tag("superseded", "old"),
    ),
    text && el("p", { class: "snippet" }, shortened(text, 300)),
    facts(
      one.agent_id,
      time(one.recorded_at),
      one.valid_until && `valid until ${when(one.valid_until)}`,
      one.memory_type,
      `importance ${one.importance}`,
      one.version > 1 && `version ${one.version}`,
      one.confirmations > 0 && `confirmed ${one.confirmations} ×`,
      one.tags.map((word) => tag(word)),
    ),
  );
}

export const follows = (event, route) =>
  event.type.startsWith("memory.") && (Boolean(route.id) || event.project === route.project);
