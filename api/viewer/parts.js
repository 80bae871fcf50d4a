// Elements that several tabs share: empty states, errors, paged lists, tags, forms.

import { fill, el } from "./dom.js";
import { knownAgents, knownProjects } from "./names.js";
import { change, current, href } from "./route.js";
import { ago, matches, projectName, when } from "./text.js";

const classed =
  (tag, name) =>
  (...children) =>
    el(tag, { class: name }, children);

/** A document in a list, or on its page; `head` is its first line. */
export const card = classed("article", "card");
export const head = classed("div", "head");
export const buttons = classed("div", "buttons");

/** The cards of a page about one thing. */
export const detail = classed("div", "detail");

/** Words that matter less: a paragraph, or beside others. */
export const hint = classed("p", "quiet");
export const aside = classed("span", "quiet");

/** A link to another part of the page; `where` are the arguments of `href`. */
export const link = (words, ...where) => el("a", { href: href(...where) }, words);

/** An empty state, with a hint about what to do. */
export const empty = (title, ...advice) =>
  el(
    "div",
    { class: "empty" },
    el("p", { class: "strong" }, title),
    advice.map((one) => (typeof one === "string" ? el("p", {}, one) : one)),
  );

/** An error message; `again` retries. */
export function failure(error, again) {
  return el(
    "div",
    { class: "failure", role: "alert" },
    el("p", { class: "strong" }, "Something went wrong"),
    el("p", {}, error.message),
    again && el("button", { type: "button", onclick: again }, "Try again"),
  );
}

export const time = (iso) => (iso ? el("time", { datetime: iso, title: when(iso) }, ago(iso)) : null);
export const tag = (text, kind = "") => el("span", { class: `tag ${kind}` }, text);
export const code = (text) => el("pre", { class: "code" }, text);

/** Small facts in a row; empty ones are omitted. */
export const facts = (...children) =>
  el(
    "p",
    { class: "facts" },
    children
      .flat()
      .filter(Boolean)
      .map((child) => el("span", {}, child)),
  );

/** Names and values; empty values are omitted. */
export function table(rows) {
  return el(
    "dl",
    { class: "pairs" },
    rows
      .filter(([, value]) => value !== "" && value !== null && value !== undefined && value.length !== 0)
      .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

/** A choice of projects, for lists that need a project. */
export function chooseProject(what) {
  const { tab } = current();
  const links = knownProjects().map((project) =>
    el("a", { class: "choice", href: href(tab, "", { project }) }, projectName(project)),
  );
  return empty(
    `${what} are listed by project`,
    links.length ? "Choose one:" : "Nothing recorded yet. Record an observation first, or run `mnemolog admin demo`.",
    el("p", { class: "choices" }, links),
  );
}

/** A list that grows by pages: `fetchPage(cursor)` returns `{items, next}`, `row(item)` returns an element. */
export async function pages(fetchPage, row, nothing, wanted = () => true) {
  const list = el("ul", { class: "rows" });
  const foot = el("div", { class: "foot" });
  let shown = 0;
  async function add(cursor) {
    const page = await fetchPage(cursor);
    const items = page.items.filter(wanted);
    shown += items.length;
    list.append(...items.map((item) => el("li", {}, row(item))));
    fill(
      foot,
      page.next && el("button", { type: "button", onclick: () => more(page.next) }, "Show more"),
      page.note && hint(page.note),
    );
    if (!shown && !page.next) fill(foot, nothing);
    if (!shown && page.next) foot.prepend(hint("Nothing on this page. "));
  }
  async function more(cursor) {
    foot.setAttribute("aria-busy", "true");
    try {
      await add(cursor);
    } catch (error) {
      fill(
        foot,
        failure(error, () => more(cursor)),
      );
    }
    foot.removeAttribute("aria-busy");
  }
  await add(undefined);
  return el("div", {}, list, foot);
}

/** A labeled field. */
export function field(label, input, hint = "") {
  return el("label", { class: "field" }, el("span", {}, label), input, hint && el("small", {}, hint));
}

/** A field with a document's text, and one with its list of names. */
export const textField = (label, known, name, properties = {}, hint = "") =>
  field(label, el("input", { name, value: known[name], ...properties }), hint);
export const namesField = (label, known, name, hint = "separated by commas") =>
  field(label, el("input", { name, value: known[name].join(", ") }), hint);

/** The values that differ from those of a document. */
export const changed = (known, values) =>
  Object.fromEntries(
    Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(known[name])),
  );

export function select(properties, options, chosen) {
  return el(
    "select",
    properties,
    options.map(([value, words]) => el("option", { value, selected: value === chosen }, words)),
  );
}

/** The filters above a list; each is a URL parameter. */
export const filters = (...fields) =>
  el("form", { class: "filter", onsubmit: (event) => event.preventDefault() }, fields);

/** A text filter. */
export const typed = (params, name, label, properties = {}) =>
  field(
    label,
    el("input", { type: "search", id: name, value: params.get(name) ?? "", onchange: kept(name), ...properties }),
  );

/** A filter with a choice; the first option is "no filter". */
export const chosen = (params, name, label, options) =>
  field(label, select({ id: name, onchange: kept(name) }, options, params.get(name) ?? ""));

/** A filter by one of the agents in `names.js`. */
export function byAgent(params) {
  const names = new Set([...knownAgents(), ...(params.has("by") ? [params.get("by")] : [])]);
  return chosen(params, "by", "By agent", [["", "all"], ...[...names].sort().map((name) => [name, name])]);
}

/** An on/off filter. */
export const checked = (params, name, label) =>
  el(
    "label",
    { class: "check" },
    el("input", { type: "checkbox", id: name, value: "1", checked: params.has(name), onchange: kept(name) }),
    label,
  );

const kept = (name) => (event) => {
  const { type, checked: on, value } = event.target;
  change({ [name]: (type === "checkbox" && !on) || !value ? null : value });
};

/** A text with the words of a query highlighted. */
export const marked = (text, query) =>
  matches(text, query).map(([isMatch, piece]) => (isMatch ? el("mark", {}, piece) : piece));

/** A card with a heading. */
export const section = (heading, ...children) => el("section", { class: "card" }, el("h2", {}, heading), children);

/** A list, without bullets unless its properties say otherwise. */
export const list = (items, properties = { class: "plain" }) =>
  el(
    "ul",
    properties,
    items.map((one) => el("li", {}, one)),
  );

/** How long the result of an action stays before an automatic refresh can remove it. */
const RESULT_MS = 10_000;

/** A button that sends a request: it is disabled until the response arrives, and shows errors next to it. */
export function action(words, work, kind = "") {
  const said = el("span", { class: "said", role: "status" });
  const button = el("button", { type: "button", class: kind, onclick: press }, words);
  const container = el("span", { class: "action" }, button, said);
  let timer = 0;
  async function press() {
    button.disabled = true;
    said.textContent = "";
    clearTimeout(timer);
    container.classList.add("active");
    try {
      said.textContent = (await work()) ?? "";
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
    timer = setTimeout(() => container.classList.remove("active"), RESULT_MS);
  }
  return container;
}

/** A form that is sent as one request; `work(values)` gets the fields by name. The button appears once a field was
 * changed; a form that creates something always shows it. */
export function form(fields, words, work, { creates = false } = {}) {
  const said = el("p", { class: "said", role: "status" });
  const button = el("button", { class: "primary", hidden: !creates }, words);
  const made = el(
    "form",
    { class: "edit", onsubmit: submit, oninput: compare, onchange: compare },
    fields,
    buttons(button, said),
  );
  const values = () => JSON.stringify([...new FormData(made)]);
  let before = values();
  function compare() {
    const changed = values() !== before;
    made.classList.toggle("changed", changed);
    button.hidden = !creates && !changed;
  }
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    said.textContent = "";
    try {
      said.textContent = (await work(Object.fromEntries(new FormData(made)))) ?? "";
      before = values();
      compare();
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
  }
  return made;
}

/** Asks for confirmation before something that cannot be undone. */
export function confirmed(title, words, verb, ...fields) {
  return new Promise((resolve) => {
    const dialog = el(
      "dialog",
      { "aria-labelledby": "confirm-title" },
      el(
        "form",
        { method: "dialog" },
        el("h2", { id: "confirm-title" }, title),
        el("p", {}, words),
        fields,
        buttons(
          el("button", { value: "yes", class: "danger" }, verb),
          el("button", { value: "", formnovalidate: true }, "Cancel"),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
