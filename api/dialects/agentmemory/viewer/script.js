"use strict";
// Everything that the server says is shown as text; no markup is ever made of it.
const FEED = 200, POLL_MS = 10000, HEALTH_MS = 10000, STEP_MS = 700, REDRAW_MS = 200;
const main = document.querySelector("main");
const VIEWS = { live: showLive, sessions: showSessions, search: showSearch, memories: showMemories, lessons: showLessons,
  actions: showActions, graph: showGraph };
const feed = new Map();
let turn = 0, socket = null, retryMs = 1000, polling = 0, drawing = false, unlocking = null, drawn = new Set();

function h(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(9).filter((one) => one !== null && one !== undefined && one !== false && one !== ""));
  return node;
}
const chip = (text, kind = "") => text && h("span", { class: `chip ${kind}` }, text);
const chips = (...all) => h("div", { class: "chips" }, all.flat(9).filter(Boolean).map((one) => one.nodeType ? one : chip(one)));
const note = (title, text, more) => h("div", { class: "note" }, h("strong", {}, title), text, more && h("p", {}, h("br"), more));
const heading = (title, ...more) => h("div", { class: "top" }, h("h2", {}, title), more.map((one) => h("span", { class: "soft small" }, one)));
const many = (count, what) => `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;
const asText = (value) => typeof value === "string" ? value : JSON.stringify(value, null, 2);

function ago(when) {
  const s = Math.round((Date.now() - Date.parse(when)) / 1000);
  if (!Number.isFinite(s)) return "";
  const [text] = [[5, "now"], [60, `${s} s ago`], [3600, `${Math.floor(s / 60)} min ago`], [86400, `${Math.floor(s / 3600)} h ago`]]
    .filter(([below]) => s < below).map(([, said]) => said);
  return text || new Date(when).toLocaleDateString();
}
const time = (when) => h("time", { class: "soft small", datetime: when, title: new Date(when).toLocaleString() }, ago(when));
const length = (ms) => ms < 60000 ? `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s` : `${Math.floor(ms / 60000)} min`;

async function ask(path, body) {
  const secret = sessionStorage.getItem("secret");
  const headers = { ...(secret && { Authorization: `Bearer ${secret}` }), ...(body && { "Content-Type": "application/json" }) };
  const answer = await fetch(`/agentmemory/${path}`, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  if (answer.status === 401) {
    if (sessionStorage.getItem("secret") === secret) await unlock(Boolean(secret));
    return ask(path, body);
  }
  const said = await answer.json().catch(() => ({}));
  if ((!answer.ok && !said.health) || said.success === false) throw new Error(said.error || `the server answered ${answer.status}`);
  return said;
}

function unlock(wrong) {
  const dialog = document.querySelector("#unlock"), field = document.querySelector("#secret");
  unlocking ??= new Promise((open) => {
    document.querySelector("#unlock-why").textContent =
      wrong ? "That was not it. Try again." : "It is kept until this tab is closed.";
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => {
      sessionStorage.setItem("secret", field.value);
      field.value = "";
      unlocking = null;
      open();
      if (!socket) connect();
    };
    dialog.showModal();
  });
  return unlocking;
}

// Views: each returns what is to be shown; the newest one asked for wins.
async function show() {
  const mine = ++turn, [view, ...rest] = location.hash.slice(1).split("/"), name = view in VIEWS ? view : "live";
  document.querySelector("nav").replaceChildren(...Object.keys(VIEWS).map((one) =>
    h("a", { href: `#${one}`, "aria-current": one === name && "page" }, one[0].toUpperCase() + one.slice(1))));
  document.querySelector("nav [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  const waiting = setTimeout(() => mine === turn && main.replaceChildren(note("Loading", "")), 150);
  let shown;
  try {
    shown = await VIEWS[name](...rest.map(decodeURIComponent));
  } catch (fault) {
    shown = note("That did not work", fault.message, h("button", { onclick: show }, "Try again"));
    shown.setAttribute("role", "alert");
  }
  clearTimeout(waiting);
  if (mine === turn) main.replaceChildren(...[shown].flat());
}

// A title that is only the beginning of the text says nothing more.
const named = (one, text) => text && one.title && text.startsWith(one.title.replace(/…$/, "")) ? "" : one.title || one.toolName;

function observed(one, fresh) {
  const bad = one.type === "error" || one.hookType === "post_tool_failure";
  return h("li", { class: `card ${fresh ? "new" : ""}` },
    h("div", { class: "line" }, chip(one.type || one.hookType || "other", bad ? "bad" : ""),
      h("span", { class: "title" }, named(one, one.narrative) || !one.narrative && (one.title || one.hookType || "observation")), time(one.timestamp)),
    one.narrative && h("p", { class: "text" }, one.narrative),
    h("div", { class: "chips" },
      one.sessionId === "memory" ? chip("memory") : h("a", { class: "chip", href: `#sessions/${encodeURIComponent(one.sessionId)}` }, one.sessionId),
      chip(one.project), chip(one.agentId), (one.files || []).slice(0, 3).map((file) => chip(file))));
}

async function showLive() {
  if (!feed.size) await poll();
  const first = !drawn.size, list = newest().map((one) => observed(one, !first && !drawn.has(one.id)));
  drawn = new Set(feed.keys());
  return [heading("Live", "what agents see and do, as it happens"), feed.size ? h("ol", { "aria-label": "Newest observations" }, list)
    : note("Nothing yet", "Observations appear here as soon as an agent's hooks send them.")];
}
const newest = () => [...feed.values()].sort((a, b) => Date.parse(b.timestamp) - Date.parse(a.timestamp));

function take(all) {
  for (const one of all) if (one && one.id) feed.set(one.id, { ...feed.get(one.id), ...one });
  for (const one of newest().slice(FEED)) feed.delete(one.id);
}
function redraw() { // the list stands still while something in it has the focus
  if (drawing || !["", "live"].includes(location.hash.slice(1)) || (document.activeElement !== main && main.contains(document.activeElement))) return;
  drawing = true;
  setTimeout(() => { drawing = false; show(); }, REDRAW_MS);
}

async function showSessions(id) {
  if (id) return showSession(id);
  const { sessions } = await ask("sessions?limit=200");
  if (!sessions.length) return [heading("Sessions"), note("No sessions yet", "A session opens with the first thing that is observed in it.")];
  return [heading("Sessions", `${sessions.length} shown, newest first`), ...sessions.map((one) =>
    h("a", { class: "card", href: `#sessions/${encodeURIComponent(one.id)}` },
      h("div", { class: "line" }, h("span", { class: `dot ${one.status === "active" ? "good" : ""}` }, one.status),
        h("span", { class: "title" }, (one.summary && (one.summary.title || one.summary)) || one.firstPrompt || one.id), time(one.updatedAt || one.startedAt)),
      one.summary && one.summary.narrative && h("p", { class: "text" }, one.summary.narrative),
      chips(one.project, one.agentId, many(one.observationCount, "observation"), one.id)))];
}

async function showSession(id) {
  const { session, timeline } = await ask(`replay/load?sessionId=${encodeURIComponent(id)}`), events = timeline.events;
  const film = h("ol", { class: "film" }), place = h("input", { type: "range", min: 0, max: events.length, value: events.length, "aria-label": "Position in the session" });
  const count = h("span", { class: "soft small" }), play = h("button", {}, "Play");
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
  const draw = () => {
    count.textContent = `${place.value} of ${events.length}`;
    [...film.children].forEach((one, number) => { one.hidden = number >= Number(place.value); });
  };
  film.append(...events.map((one) => h("li", { class: one.kind },
    h("div", { class: "line" }, h("span", { class: "title" }, one.label), chip(one.kind.replace("_", " "), one.kind === "tool_error" ? "bad" : ""),
      h("span", { class: "soft small", title: new Date(one.ts).toLocaleString() }, `+${length(one.offsetMs)}`)),
    one.body && h("p", { class: "text" }, one.body),
    (one.toolInput || one.toolOutput) && h("details", {}, h("summary", {}, "Input and output"),
      one.toolInput && h("pre", { tabindex: 0 }, asText(one.toolInput)), one.toolOutput && h("pre", { tabindex: 0 }, asText(one.toolOutput))))));
  place.addEventListener("input", () => { stop(); draw(); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(place.value) >= events.length) place.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!film.isConnected) return stop();
      place.value = Number(place.value) + 1;
      draw();
      film.children[place.value - 1]?.scrollIntoView({ block: "nearest" });
      if (Number(place.value) >= events.length) stop();
    }, STEP_MS);
  });
  draw();
  const told = session.summary && session.summary.narrative;
  return [h("p", {}, h("a", { href: "#sessions" }, "All sessions")), heading(session.firstPrompt || session.id, session.status, `${many(events.length, "event")} in ${length(timeline.totalDurationMs)}`),
    chips(session.project, session.agentId, session.cwd, session.id, (session.commitShas || []).map((sha) => `commit ${sha.slice(0, 7)}`)),
    told && h("div", { class: "card" }, h("h3", {}, "Summary"), h("p", {}, told)),
    events.length ? [h("div", { class: "play" }, play, place, count), film] : note("Nothing observed", "This session was opened, and nothing has happened in it.")].flat().filter(Boolean);
}

async function showSearch(query = "") {
  const field = h("input", { type: "search", name: "query", value: query, placeholder: "What do you want to know?", "aria-label": "Search" });
  const form = h("form", { class: "find", role: "search", onsubmit: (event) => { event.preventDefault(); location.hash = `search/${encodeURIComponent(field.value.trim())}`; } },
    field, h("button", { class: "primary" }, "Search"));
  if (!query) { setTimeout(() => field.focus()); return [heading("Search", "observations and memories, by words and meaning"), form]; }
  const { results } = await ask("search", { query, limit: 50 });
  return [heading("Search", many(results.length, "hit")), form, results.length ? h("ol", {}, results.map((one) => observed({ ...one.observation, narrative: one.content, id: one.obsId }))) : note("Nothing found", "Try other words.")];
}

async function showMemories() {
  const { memories, total } = await ask("memories?latest=true&limit=200");
  if (!memories.length) return [heading("Memories"), note("No memories yet", "Agents keep what should outlast a session with memory_save.")];
  return [heading("Memories", `${memories.length} of ${total}, newest first`), ...memories.map((one) => {
    const older = h("details", { ontoggle: async () => {
      if (!older.open || older.children.length > 1) return;
      try {
        const { versions } = await ask(`memories/${encodeURIComponent(one.id)}/versions`);
        older.append(...versions.slice(0, -1).reverse().map((past) => h("pre", { tabindex: 0 }, `${past.version}, ${new Date(past.createdAt).toLocaleString()}\n${past.content}`)));
      } catch (fault) { older.append(h("p", { class: "soft" }, fault.message)); }
    } }, h("summary", {}, "Earlier versions"));
    return h("article", { class: "card" }, h("div", { class: "line" }, chip(one.type), h("span", { class: "title" }, named(one, one.content)), time(one.updatedAt)),
      h("p", { class: "text" }, one.content),
      chips(one.version > 1 && `version ${one.version}`, one.project, one.agentId, one.concepts.slice(0, 6), one.files.slice(0, 3)), one.version > 1 && older);
  })];
}

async function showLessons() {
  const { lessons } = await ask("lessons?limit=200");
  if (!lessons.length) return [heading("Lessons"), note("No lessons yet", "What agents learn is shown here, the surest first.")];
  return [heading("Lessons", "the surest first"), ...lessons.map((one) => h("article", { class: "card" },
    h("div", { class: "line" }, h("span", { class: "title" }, one.content), h("meter", { min: 0, max: 1, value: one.confidence, title: "confidence", "aria-label": `confidence ${one.confidence}` })),
    one.context && h("p", { class: "text" }, one.context), chips(`${Math.round(one.confidence * 100)} % sure`, one.reinforcements > 0 && `confirmed ${many(one.reinforcements, "time")}`, one.project, one.source, one.tags)))];
}

async function showActions() {
  const [{ actions }, { frontier }] = await Promise.all([ask("actions?limit=200"), ask("frontier?limit=100")]);
  if (!actions.length) return [heading("Actions"), note("No actions yet", "Work that agents share is shown here, what can be done now first.")];
  const ready = new Set(frontier.map((one) => one.id)), kinds = { done: "good", completed: "good", active: "warn", blocked: "bad" };
  const card = (one) => h("article", { class: "card" }, h("div", { class: "line" }, chip(one.status, kinds[one.status]), h("span", { class: "title" }, one.title), time(one.updatedAt)),
    one.description && h("p", { class: "text" }, one.description), one.result && h("p", { class: "text soft" }, one.result),
    chips(one.priority !== 0 && `priority ${one.priority}`, one.project, one.assignedTo && `with ${one.assignedTo}`, one.tags));
  const group = (title, found) => found.length ? [h("h3", {}, title), ...found.map(card)] : [];
  return [heading("Actions", `${frontier.length} can be worked on now`), ...group("Now", frontier), ...group("Others", actions.filter((one) => !ready.has(one.id)))];
}

async function showGraph() {
  const stats = await ask("graph/stats");
  const bars = (title, counts) => {
    const rows = Object.entries(counts).sort((a, b) => b[1] - a[1]), most = Math.max(1, ...rows.map(([, count]) => count));
    return h("section", { class: "card" }, h("h3", {}, title), h("div", { class: "bars" }, rows.map(([name, count]) =>
      [h("span", {}, name.replaceAll("_", " ")), h("meter", { min: 0, max: most, value: count }), h("span", { class: "soft" }, count.toLocaleString())])));
  };
  if (!stats.totalNodes) return [heading("Graph"), note("Nothing to draw", "Projects, sessions, memories, files and concepts become nodes.")];
  return [heading("Graph", `${stats.totalNodes.toLocaleString()} nodes`, `${stats.totalEdges.toLocaleString()} edges`), h("div", { class: "pair" }, bars("Nodes", stats.nodesByType), bars("Edges", stats.edgesByType))];
}

// The live stream, with polling for as long as it cannot be had.
function say(name, text, kind) {
  const place = document.querySelector(name);
  if (place.textContent !== text) place.textContent = text;
  place.className = `${name.slice(1)} ${kind}`;
}
async function poll() {
  const { observations } = await ask("timeline", { anchor: new Date().toISOString(), before: 60, after: 0 });
  take(observations);
}
function connect() {
  const secret = sessionStorage.getItem("secret"), scheme = location.protocol === "https:" ? "wss" : "ws";
  const mine = socket = new WebSocket(`${scheme}://${location.host}/stream/mem-live/viewer${secret ? `?token=${encodeURIComponent(secret)}` : ""}`);
  mine.onopen = () => { clearInterval(polling); polling = 0; say("#stream", "live", "good"); };
  mine.onmessage = ({ data }) => { retryMs = 1000; take([JSON.parse(data).data?.observation]); redraw(); };
  mine.onclose = ({ code }) => {
    socket = null;
    say("#stream", "polling", "warn");
    polling ||= setInterval(() => poll().then(redraw, () => {}), POLL_MS);
    if (code === 1008 && !secret) return; // the first request asks for the secret, and then connects again
    setTimeout(() => socket || connect(), retryMs);
    retryMs = Math.min(30000, retryMs * 2);
  };
}
async function health() {
  try {
    const said = await ask("health"), up = said.health?.uptimeSeconds;
    const parts = [said.status, said.version, Number.isFinite(up) && `up ${up < 60 ? `${Math.floor(up)} s` : up < 3600 ? `${Math.floor(up / 60)} min` : `${Math.floor(up / 3600)} h`}`];
    say("#health", parts.filter(Boolean).join(" · "), { healthy: "good", degraded: "warn" }[said.status] || "bad");
  } catch { say("#health", "the server does not answer", "bad"); }
}

addEventListener("hashchange", () => { main.focus({ preventScroll: true }); scrollTo(0, 0); show(); });
show();
connect();
health();
setInterval(health, HEALTH_MS);
