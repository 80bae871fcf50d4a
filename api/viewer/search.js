// Search, with the reasons for each result and the omitted results.

import { lastWrite, post } from "./api.js";
import { documentLine } from "./documents.js";
import { el } from "./dom.js";
import { empty, facts, failure, field, head, hint, link, marked, tag, time } from "./parts.js";
import { change } from "./route.js";
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
        "Each result shows how its score was computed.",
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

/** The slider of the minimum confidence. */
function sureness(route) {
  const least = Number(route.params.get("min") ?? 0);
  const words = el("output", { for: "min" }, sureWords(least));
  return el(
    "label",
    { class: "field", for: "min" },
    el("span", {}, "Minimum confidence: ", words),
    el("input", {
      type: "range",
      id: "min",
      min: 0,
      max: 95,
      step: 5,
      value: least * 100,
      oninput: (event) => {
        words.textContent = sureWords(event.target.value / 100);
      },
      onchange: (event) => change({ min: event.target.value === "0" ? null : String(event.target.value / 100) }),
    }),
  );
}

const sureWords = (least) => (least ? percent(least) : "show all");

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

/** The server's results; with a minimum confidence, the results below it are left out, and can be opened. */
async function results(query, route) {
  const request = {
    query,
    limit: LIMIT,
    explain: true,
    after: lastWrite(),
    ...(route.project !== null && { project: route.project }),
    ...(route.params.has("kinds") && { kinds: kindsOf(route) }),
    ...(route.params.has("asof") && { as_of: new Date(route.params.get("asof")).toISOString() }),
  };
  const least = Number(route.params.get("min") ?? 0);
  const answer = await post("/v1/recall", request);
  const enough = ({ confidence }) => confidence === undefined || confidence === null || confidence >= least;
  const shown = answer.results.filter(enough);
  return el(
    "div",
    {},
    notes(answer, shown),
    list(shown, route) ?? nothing(answer, route),
    leftOut(answer, shown, least, route),
  );
}

const list = (results, route) =>
  results.length
    ? el(
        "ol",
        { class: "results" },
        results.map((result) => el("li", {}, card(result, route))),
      )
    : null;

function notes(answer, shown) {
  const lag = Object.values(answer.lag).reduce((sum, behind) => sum + behind, 0);
  return el(
    "div",
    {},
    hint(
      `${count(shown.length, "result")} in ${Math.round(answer.took_ms)} ms`,
      answer.certainty && `. Subject: ${inWords(answer)}`,
    ),
    lag > 0 && el("p", { class: "warning" }, `${count(lag, "event")} pending, so recent documents may be missing.`),
    shown.length > 0 && legend(shown),
    answer.degraded.map((reason) => el("p", { class: "warning" }, reason)),
  );
}

function nothing(answer, route) {
  if (answer.results.length) return empty("No confident results", "All results are below the minimum confidence.");
  return empty(
    "No results",
    route.project === null
      ? "No document matches by words or by meaning."
      : "Nothing in this project matches by words or by meaning. Choose “All projects” above to broaden the search.",
  );
}

function leftOut(answer, shown, least, route) {
  const left = answer.results.filter((result) => !shown.includes(result));
  if (!left.length) return null;
  return el(
    "details",
    { class: "left" },
    el("summary", {}, `${count(left.length, "result")} left out: below ${percent(least)} confidence`),
    list(left, route),
  );
}

function card(result, { params }) {
  const query = params.get("q") ?? "";
  const [heading, text] = headed(result.title, result.snippet);
  return el(
    "article",
    { class: "card result" },
    head(tag(result.kind, result.kind), el("h2", {}, linked(result, marked(heading, query)))),
    text && el("p", { class: "snippet" }, marked(text, query)),
    facts(
      result.agent_id,
      time(result.occurred_at),
      projectName(result.project),
      result.session_id && link(result.session_id, "sessions", result.session_id, { project: result.project }),
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
  if (HOME[result.kind]) return link(words, HOME[result.kind], result.id, { project: result.project });
  return result.session_id
    ? link(words, "sessions", result.session_id, {
        project: result.project,
        turn: result.kind === "observation" ? result.id : null,
      })
    : words;
}

/** The near-duplicates, loaded when opened. */
function repeats(ids) {
  const list = el("ul", { class: "plain" });
  return el("details", { ontoggle: fetched }, el("summary", {}, `Also in ${count(ids.length, "document")}`), list);
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
