// Replay: a session or a project at a moment: events so far, valid memories and lessons, and recall results.

import { found, post, read } from "./api.js";
import { el, fill, svg } from "./dom.js";
import { event, knownAt, Moments, MOST } from "./moments.js";
import {
  aside,
  buttons,
  chooseProject,
  empty,
  failure,
  field,
  filters,
  hint,
  link,
  list,
  select,
  tag,
} from "./parts.js";
import { href, stay } from "./route.js";
import { count, number, projectName, shortened, when } from "./text.js";
import { clockTime, turn } from "./turn.js";

export const title = "Replay";
const PAGE = 500;
const SESSIONS = 50;
const WINDOW = 25;
const LISTED = 6;
const MOST_KNOWN = 5000;
const STILL_MS = 400;
const ANSWERS = 5;
const PARTS = 240;
const TELLING = { memory: "memories and lessons", conversation: "prompts", decision: "decisions", error: "errors" };
const SPEEDS = [1, 4, 20, 100];

export async function show(route) {
  if (route.project === null && !route.id) return chooseProject("Replays");
  const session = route.id && (await found(`/v1/sessions/${encodeURIComponent(route.id)}`, within(route)));
  if (route.id && !session)
    return empty(
      "Session not found",
      "It is in another project, was deleted, or you don't have access.",
      link("All sessions", "sessions"),
    );
  const project = session ? session.project : route.project;
  const [first, sessions] = await Promise.all([
    firstPage(project, route.id),
    read("/v1/sessions", { project, limit: SESSIONS }),
  ]);
  if (!first.items.length) return empty("No observations", "Choose another session or project.");
  const replay = player(project, session, first.items, route);
  replay.loadFrom(first.next);
  return el("div", { class: "detail replay" }, filters(chooser(project, session, sessions)), replay.element);
}

const within = ({ project }) => (project === null ? {} : { project });

/** A page of turns: a session's, oldest first, or a project's, newest first. */
const pageOf = (project, session, cursor) =>
  session
    ? read(`/v1/sessions/${encodeURIComponent(session)}/observations`, { project, limit: PAGE, cursor })
    : read("/v1/timeline", { project, limit: PAGE, cursor });

/** The first page that is not empty; earlier pages contain only turns that this reader cannot access. */
async function firstPage(project, session) {
  let page = await pageOf(project, session);
  for (let read = PAGE; !page.items.length && page.next && read < MOST; read += PAGE)
    page = await pageOf(project, session, page.next);
  return page;
}

function chooser(project, session, { items }) {
  const listed = !session || items.some((one) => one.id === session.id) ? items : [session, ...items];
  const options = listed.map((one) => [
    one.id,
    `${shortened(one.title || one.first_prompt || one.id, 60)} (${number(one.observation_count)})`,
  ]);
  const go = (event) => {
    location.hash = href("replay", event.target.value, { project });
  };
  return field(
    "Replay",
    select(
      { id: "session", onchange: go },
      [["", `All of ${projectName(project)}, the newest`], ...options],
      session?.id ?? "",
    ),
  );
}

/** The slider with its buttons, and the content for its moment. */
function player(project, session, items, route) {
  const moments = new Moments();
  moments.add(items.map(ofTurn));
  const asked = Date.parse(route.params.get("at") ?? "");
  if (asked) moments.seek(asked);
  else moments.go(session ? 0 : moments.last);

  let [timer, settling, moved] = [0, 0, !asked];
  const loading = el("p", { class: "quiet", role: "status" });
  const said = el("p", { class: "moment" });
  const ticks = svg("svg", {
    class: "ticks",
    viewBox: `0 0 ${PARTS} 8`,
    preserveAspectRatio: "none",
    "aria-hidden": true,
  });
  const events = el("div", { id: "events" });
  const beside = asOf(project, (kind, documents) => {
    const own = session ? documents.filter((one) => one.session_id === session.id) : documents;
    grown(own.map((one) => event(kind, one)));
  });
  const question = answers(project, route.params.get("q") ?? "", () => moments.current);
  const slider = el("input", {
    type: "range",
    id: "moment",
    min: 1,
    "aria-label": "Event",
    oninput: () => to(Number(slider.value) - 1),
  });
  const play = el("button", { type: "button", class: "primary", onclick: toggle }, "Play");
  const speed = select(
    { id: "speed", onchange: () => timer && start() },
    SPEEDS.map((one) => [String(one), `${one}`]),
    "4",
  );

  function to(place) {
    moved = true;
    moments.go(place);
    draw();
  }

  function draw() {
    const { current, place } = moments;
    slider.max = moments.events.length;
    slider.value = place + 1;
    const words = `Event ${number(place + 1)} of ${number(moments.events.length)}`;
    slider.setAttribute("aria-valuetext", `${words}, ${when(current.at)}`);
    fill(said, el("strong", {}, words), " ", el("time", {}, SECOND.format(current.at)));
    fill(
      events,
      moments.window(WINDOW).map((one, back) => row(one, back === 0)),
    );
    beside.draw(current.at);
    clearTimeout(settling);
    settling = setTimeout(settled, STILL_MS);
  }

  function settled() {
    if (!element.isConnected || timer) return;
    stay({ at: new Date(moments.current.at).toISOString() });
    question.ask();
  }

  function toggle() {
    if (timer) stop();
    else start();
  }

  function start() {
    stop();
    if (moments.place === moments.last) moments.go(0);
    play.textContent = "Pause";
    timer = setInterval(
      () => {
        if (!element.isConnected || moments.place === moments.last) stop();
        else to(moments.place + 1);
      },
      1000 / Number(speed.value),
    );
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    settled();
  }

  function pressed(pressing) {
    const { target, key } = pressing;
    const typing = target.matches("input:not(#moment), select, textarea, button, summary, a");
    const step = { ArrowLeft: -1, ArrowRight: 1, " ": 0 }[key];
    if (typing || step === undefined || pressing.ctrlKey || pressing.altKey || pressing.metaKey) return;
    pressing.preventDefault();
    if (step) to(moments.place + step);
    else toggle();
  }

  /** Adds loaded events. The current moment stays the same, except that a reader at the end of the history stays at the
   * end. */
  function grown(some) {
    const atEnd = !session && moments.place === moments.last;
    moments.add(some.slice(0, MOST - moments.events.length));
    if (!moved) moments.seek(asked);
    else if (atEnd) moments.go(moments.last);
    draw();
    const found = moments.marks(PARTS, ["", "lesson", ...Object.keys(TELLING)]);
    fill(
      ticks,
      found.map((kind, x) => kind && svg("rect", { class: kind, x, y: 0, width: 0.9, height: 8 })),
    );
  }

  /** Loads the rest page by page, as long as the tab is shown. */
  async function loadFrom(cursor) {
    try {
      while (cursor && moments.events.length < MOST) {
        loading.textContent = `${count(moments.events.length, "event")} loaded…`;
        const page = await pageOf(project, session?.id, cursor);
        if (!element.isConnected) return;
        grown(page.items.map(ofTurn));
        cursor = page.next;
      }
      const those = session ? "first" : "newest";
      loading.textContent = cursor ? `Showing the ${those} ${number(moments.events.length)} events.` : "";
    } catch (error) {
      fill(
        loading,
        failure(error, () => loadFrom(cursor)),
      );
    }
  }

  const element = el(
    "div",
    { onkeydown: pressed },
    el(
      "section",
      { class: "card scrub" },
      said,
      slider,
      ticks,
      buttons(
        el("button", { type: "button", onclick: () => to(moments.place - 1) }, "Back"),
        play,
        el("button", { type: "button", onclick: () => to(moments.place + 1) }, "Forward"),
        el("label", {}, speed, " events a second"),
        el(
          "span",
          { class: "legend" },
          Object.entries(TELLING).map(([kind, words]) => el("span", {}, el("span", { class: `dot ${kind}` }), words)),
        ),
      ),
      loading,
    ),
    question.element,
    el("div", { class: "then" }, el("section", {}, el("h2", {}, "Events so far"), events), beside.element),
  );
  grown([]);
  return { element, loadFrom };
}

const SECOND = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const ofTurn = (one) => event(one.kind, one);

/** An event in the list; the full text of a turn is loaded when it is opened. */
function row(one, isCurrent) {
  const more = [one.agent && aside(one.agent), isCurrent && tag("current", "ok")];
  const at = new Date(one.at).toISOString();
  if (!HOMES[one.kind])
    return turn(
      { ...one, headline: one.text, occurred_at: at, full: () => found(`/v1/observations/${one.id}`) },
      false,
      more,
    );
  const words = el("a", { class: "headline", href: href(HOMES[one.kind], one.id) }, shortened(one.text, 160));
  return el("div", { class: "card turn line" }, tag(one.kind, one.kind), words, clockTime(at), more);
}

const HOMES = { memory: "memories", lesson: "lessons" };

/** The memories and lessons that were valid at a moment; `onLoaded(kind, documents)` is called for each page of them. */
function asOf(project, onLoaded) {
  const kinds = [
    { kind: "memory", heading: "Memories", params: { latest: false }, all: [], body: el("div", { class: "card" }) },
    { kind: "lesson", heading: "Lessons", params: { retired: true }, all: [], body: el("div", { class: "card" }) },
  ];

  function draw(at) {
    for (const { kind, heading, all, body } of kinds) {
      const then = knownAt(all, at);
      fill(
        body,
        el("h2", {}, `${heading} `, aside(`${number(then.length)} then`)),
        then.length ? list(then.slice(0, LISTED).map((one) => line(one, HOMES[kind]))) : hint("None yet."),
        then.length > LISTED && hint(`and ${number(then.length - LISTED)} older`),
      );
    }
  }

  async function load({ kind, params, all }) {
    let cursor;
    do {
      const page = await read(`/v1/${HOMES[kind]}`, { project, ...params, limit: PAGE, cursor });
      all.push(...page.items.map((one) => event(kind, one)));
      all.sort((a, b) => b.at - a.at);
      onLoaded(kind, page.items);
      cursor = page.next;
    } while (cursor && all.length < MOST_KNOWN);
  }

  const element = el(
    "section",
    {},
    kinds.map(({ body }) => body),
  );
  Promise.all(kinds.map(load)).catch((error) => element.append(failure(error)));
  return { element, draw };
}

const line = (one, collection) => [
  link(shortened(one.text, 110), collection, one.id),
  one.version > 1 && aside(` version ${one.version}`),
  Number.isFinite(one.until) && aside(` until ${when(one.until)}`),
];

/** A question, with the recall results as of the moment and those of today. */
function answers(project, query, moment) {
  const input = el("input", {
    id: "then-q",
    type: "search",
    value: query,
    placeholder: "Ask recall as of this time",
    "aria-label": "Question as of this time",
    maxlength: 20000,
  });
  const body = el("div", { role: "status" });
  let asked = "";

  async function ask() {
    const [words, at] = [input.value.trim(), moment()?.recorded];
    const now = `${words}@${at}`;
    if (now === asked) return;
    asked = now;
    stay({ q: words || null });
    if (!words) return void fill(body);
    const request = { query: words, project, limit: ANSWERS };
    try {
      const [then, today] = await Promise.all([
        post("/v1/recall", { ...request, as_of: new Date(at).toISOString() }),
        post("/v1/recall", request),
      ]);
      if (now === asked) fill(body, compared(then.results, today.results));
    } catch (error) {
      if (now === asked) fill(body, failure(error));
    }
  }

  const element = el(
    "form",
    {
      class: "card asked",
      role: "search",
      onsubmit: (event) => {
        event.preventDefault();
        ask();
      },
    },
    el("div", { class: "ask" }, input, el("button", {}, "Ask")),
    body,
  );
  return { element, ask };
}

function compared(then, today) {
  const [thenIds, todayIds] = [then, today].map((some) => new Set(some.map((one) => one.id)));
  return [
    then.length
      ? el(
          "ol",
          {},
          then.map((one) => el("li", {}, answer(one, !todayIds.has(one.id) && "not today"))),
        )
      : el("p", {}, "No results as of this time."),
    hint(`Found today but not at this time: ${today.filter((one) => !thenIds.has(one.id)).length}.`),
  ];
}

const answer = (one, note) => [
  tag(one.kind, one.kind),
  " ",
  shortened(one.snippet || one.title, 180),
  " ",
  aside(one.agent_id),
  note && [" ", tag(note, "old")],
];

export const follows = () => false;
