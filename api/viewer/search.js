// Search, with the reasons for each result and the omitted results.

import { lastWrite, post } from "./api.js";
import { documentLine } from "./documents.js";
import { el } from "./dom.js";
import { empty, facts, failure, field, marked, tag, time } from "./parts.js";
import { change, href } from "./route.js";
import { legend, scoreBar, scoreTable } from "./score.js";
import { count, headed, inWords, percent, projectName, shortened, when } from "./text.js";

export const title = "Search";
const KINDS = ["observation", "memory", "lesson", "summary"];
const LIMIT = 10;
const HOME = { memory: "memories", lesson: "lessons" };

export async function show(route) {
  const query = route.params.get("q") ?? "";
  const answer = query
    ? await results(query, route)
    : empty(
        "Search what agents recorded",
        "Ask in plain language; names, files and ids match as words.",
        "Each result shows its confidence and how its score was computed.",
      );
  return el("div", {}, searchForm(query, route), answer);
}

function searchForm(query, route) {
  const kinds = kindsOf(route);
  return el(
    "form",
    { class: "search", role: "search", onsubmit: submit },
    el(
      "div",
      { class: "ask" },
      el("input", {
        id: "q",
        name: "q",
        type: "search",
        value: query,
        "aria-label": "Question",
        placeholder: "Why did checkout fail?",
        autocomplete: "off",
        maxlength: 20000,
        required: true,
      }),
      el("button", { class: "primary" }, "Search"),
    ),
    el(
      "div",
      { class: "choose" },
      el(
        "fieldset",
        {},
        el("legend", {}, "Kinds"),
        KINDS.map((kind) =>
          el(
            "label",
            { class: "check" },
            el("input", {
              type: "checkbox",
              name: "kind",
              value: kind,
              id: `kind-${kind}`,
              checked: kinds.includes(kind),
              onchange: submit,
            }),
            kind,
          ),
        ),
      ),
      sureness(route),
      field(
        "As of",
        el("input", {
          type: "datetime-local",
          name: "asof",
          id: "asof",
          value: route.params.get("asof") ?? "",
          onchange: submit,
        }),
      ),
    ),
  );
}

/** The slider of the minimum confidence; at its left end, the server's default. */
function sureness(route) {
  const least = route.params.get("min") ?? "";
  const words = el("output", { for: "min" }, sureWords(least));
  return el(
    "label",
    { class: "field", for: "min" },
    el("span", {}, "Minimum confidence: ", words),
    el("input", {
      type: "range",
      id: "min",
      min: -5,
      max: 95,
      step: 5,
      value: least === "" ? -5 : Number(least) * 100,
      oninput: (event) => {
        words.textContent = sureWords(leastOf(event.target.value));
      },
      onchange: (event) => change({ min: leastOf(event.target.value) || null }),
    }),
  );
}

const leastOf = (value) => (Number(value) < 0 ? "" : String(Number(value) / 100));
const sureWords = (least) => (least === "" ? "the server's default" : least === "0" ? "show all" : percent(Number(least)));

function submit(event) {
  event.preventDefault();
  const values = new FormData(event.target.form ?? event.target);
  const kinds = values.getAll("kind");
  change({
    q: values.get("q"),
    kinds: kinds.length && kinds.length < KINDS.length ? kinds.join(",") : null,
    asof: values.get("asof") || null,
  });
}

const kindsOf = ({ params }) => params.get("kinds")?.split(",") ?? KINDS;

/** The server's results, and its results without a minimum confidence; the difference is what was omitted. */
async function results(query, route) {
  const asked = {
    query,
    limit: LIMIT,
    explain: true,
    after: lastWrite(),
    ...(route.project !== null && { project: route.project }),
    ...(route.params.has("kinds") && { kinds: kindsOf(route) }),
    ...(route.params.has("asof") && { as_of: new Date(route.params.get("asof")).toISOString() }),
  };
  const least = route.params.get("min");
  const [answer, all] = await Promise.all([
    post("/v1/recall", least === null ? asked : { ...asked, min_confidence: Number(least) }),
    post("/v1/recall", { ...asked, min_confidence: 0 }),
  ]);
  const kept = new Set(answer.results.map((one) => one.id));
  const left = all.results.filter((one) => !kept.has(one.id));
  return el(
    "div",
    {},
    notes(answer),
    answer.results.length
      ? el(
          "ol",
          { class: "results" },
          answer.results.map((one) => el("li", {}, card(one, route))),
        )
      : nothing(all, route),
    leftOut(left, least, answer.results.length, route),
  );
}

function notes(answer) {
  const lag = Object.values(answer.lag).reduce((sum, behind) => sum + behind, 0);
  return el(
    "div",
    {},
    el(
      "p",
      { class: "quiet" },
      `${count(answer.results.length, "result")} in ${Math.round(answer.took_ms)} ms`,
      answer.certainty && answer.results.length > 0 && `. An answer is recorded: ${inWords(answer)}`,
    ),
    lag > 0 &&
      el("p", { class: "warning" }, `${count(lag, "event")} pending, so recent documents may be missing.`),
    answer.results.length > 0 && legend(answer.results),
    answer.degraded.map((reason) => el("p", { class: "warning" }, reason)),
  );
}

function nothing(all, route) {
  const nearest = all.results[0];
  if (!nearest)
    return empty(
      "No results",
      route.project === null
        ? "No document matches by words or by meaning."
        : "Nothing in this project matches by words or by meaning. Choose “All projects” above to broaden the search.",
    );
  return empty(
    "No confident results",
    all.certainty ? `An answer is recorded: ${inWords(all)}. Agents get no results below the minimum confidence.` : "",
    el("p", { class: "quote" }, shortened(nearest.snippet)),
  );
}

function leftOut(left, least, shown, route) {
  if (!left.length) return null;
  const limit = shown ? "far less likely than the first result" : "the answer is below the server's minimum confidence";
  const why = least ? `below ${percent(Number(least))} confidence` : limit;
  return el(
    "details",
    { class: "left" },
    el("summary", {}, `${count(left.length, "result")} left out: ${why}`),
    el(
      "ol",
      { class: "results" },
      left.map((one) => el("li", {}, card(one, route))),
    ),
  );
}

function card(result, { params }) {
  const query = params.get("q") ?? "";
  const [heading, text] = headed(result.title, result.snippet);
  return el(
    "article",
    { class: "card result" },
    el("div", { class: "head" }, tag(result.kind, result.kind), el("h2", {}, linked(result, marked(heading, query))), sure(result)),
    text && el("p", { class: "snippet" }, marked(text, query)),
    facts(
      result.agent_id,
      time(result.occurred_at),
      projectName(result.project),
      result.session_id &&
        el("a", { href: href("sessions", result.session_id, { project: result.project }) }, result.session_id),
      result.valid_until && `valid until ${when(result.valid_until)}`,
      result.trust && tag(result.trust.replace("_", " "), "old"),
      (result.changed_since ?? []).map((one) =>
        el("span", { title: `last on ${when(one.at)}` }, `${one.file} changed ${count(one.times, "time")} since`),
      ),
      result.superseded_by && el("span", { title: result.superseded_by }, "probably replaced by a newer result above"),
      result.confirmed && `confirmed ${count(result.confirmed, "time")}`,
      result.derived_from && `derived from ${count(result.derived_from.length, "document")}`,
    ),
    scoreBar(result),
    el("details", {}, el("summary", {}, "Score details"), scoreTable(result)),
    result.repeats && repeats(result.repeats),
    ![heading, text].includes(result.content.trim()) &&
      el("details", {}, el("summary", {}, "Full text"), el("p", { class: "text" }, marked(result.content, query))),
  );
}

function linked(result, words) {
  if (HOME[result.kind])
    return el("a", { href: href(HOME[result.kind], result.id, { project: result.project }) }, words);
  return result.session_id
    ? el(
        "a",
        {
          href: href("sessions", result.session_id, {
            project: result.project,
            turn: result.kind === "observation" ? result.id : null,
          }),
        },
        words,
      )
    : words;
}

function sure(result) {
  if (!result.certainty) return null;
  return el("span", { class: `certainty ${result.certainty}`, title: "How likely this answers the question" }, inWords(result));
}

/** The near-duplicates, loaded when opened. */
function repeats(ids) {
  const list = el("ul", { class: "plain" });
  return el(
    "details",
    { ontoggle: fetched },
    el("summary", {}, `Also in ${count(ids.length, "document")}`),
    list,
  );
  async function fetched() {
    if (list.childElementCount) return;
    list.append(el("li", { class: "quiet" }, "…"));
    try {
      const found = await Promise.all(ids.slice(0, 20).map(documentLine));
      list.replaceChildren(...found.map((one) => el("li", {}, one)));
    } catch (error) {
      list.replaceChildren(failure(error));
    }
  }
}

export const follows = () => false;
