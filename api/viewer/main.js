// The page: the tabs, the pickers, the current tab, and refreshing it when the log grows.
//
// A tab is a module with a `title`, `show(route)`, which returns the page's content, and `follows(event, route)`:
// whether an event changes that. `figures`: the content also changes without events.

import * as actions from "./actions.js";
import { missed, seen } from "./activity.js";
import * as dashboard from "./dashboard.js";
import * as diary from "./diary.js";
import { el, fill } from "./dom.js";
import * as graph from "./graph.js";
import { askForKey, forgetKey, key } from "./key.js";
import * as inbox from "./inbox.js";
import * as lessons from "./lessons.js";
import { follow } from "./live.js";
import * as memories from "./memories.js";
import { empty, failure } from "./parts.js";
import { drawPickers } from "./pickers.js";
import * as pipeline from "./pipeline.js";
import { learn, note } from "./names.js";
import * as replay from "./replay.js";
import { learnRights, may, rights } from "./rights.js";
import { current, go, href } from "./route.js";
import * as search from "./search.js";
import * as sessions from "./sessions.js";
import * as slots from "./slots.js";
import * as timeline from "./timeline.js";

const TABS = { diary, search, memories, sessions, dashboard, inbox, lessons, slots, actions, timeline, replay, graph, pipeline };
const PAUSE_MS = 300;
const FIGURES_MS = 5000;
const content = document.getElementById("content");
const live = document.getElementById("live");
const keyButton = document.getElementById("key-button");
let shown = 0;
let following = new AbortController();
let followedAs = "";
let outdated = false;
let refreshing = false;
let searching = false;

/** Shows the tab that the URL names. `quiet`: the tab is already shown and only its content may have changed. */
async function show(quiet = false) {
  const route = current();
  const tab = TABS[route.tab] ?? diary;
  const turn = ++shown;
  if (!quiet) content.setAttribute("aria-busy", "true");
  drawTabs(tab);
  drawPickers();
  let body;
  try {
    body = may("read") ? await tab.show(route) : unreadable();
  } catch (error) {
    if (quiet) return; // the shown content is still valid; the header shows the connection state
    body = failure(error, () => show());
  }
  if (turn !== shown) return;
  if (quiet && inUse()) return offer(); // since the content was requested
  const focused = document.activeElement?.id;
  fill(content, el("h1", { class: "unseen" }, tab.title), body);
  content.removeAttribute("aria-busy");
  document.title = `${tab.title} · mnemolog`;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: quiet });
  if (searching) document.getElementById("q")?.focus();
  searching = false;
}

const unreadable = () =>
  empty(
    "This key cannot read",
    `These pages need a key with the role read. This key has: ${rights() || "none"}.`,
  );

function drawTabs(shownTab) {
  const links = Object.entries(TABS).map(([name, tab]) =>
    el("a", { href: href(name), "aria-current": tab === shownTab && "page" }, tab.title),
  );
  fill(document.getElementById("tabs"), links);
  document.querySelector("#tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Whether someone is using the page, so that its content must not change. */
function inUse() {
  const focused = document.activeElement;
  return (
    document.querySelector("dialog[open], main details[open], main .edit:focus-within, main .edit.changed") !== null ||
    (content.contains(focused) && focused.matches("input, textarea, select"))
  );
}

function heard(event) {
  seen(event);
  if (note(event)) drawPickers();
  const route = current();
  if ((TABS[route.tab] ?? diary).follows(event, route)) refresh();
}

/** Refreshes the tab, at most once every PAUSE_MS. */
async function refresh() {
  outdated = true;
  if (refreshing) return;
  refreshing = true;
  while (outdated) {
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE_MS);
    });
    if (content.hasAttribute("aria-busy")) continue;
    outdated = false;
    if (inUse()) offer();
    else await show(true);
  }
  refreshing = false;
}

/** Metrics change without events. A refresh would remove an action's result before anyone has read it. */
setInterval(() => {
  const isActing = document.querySelector("main .action.active") !== null;
  if (TABS[current().tab]?.figures && !document.hidden && !inUse() && !isActing) refresh();
}, FIGURES_MS);

/** Offers a refresh if an automatic one would interrupt the user. */
function offer() {
  if (document.getElementById("news")) return;
  content.prepend(
    el("button", { type: "button", id: "news", onclick: () => show() }, "New activity. Refresh"),
  );
}

function followAgain() {
  following.abort();
  missed();
  followedAs = current().agent;
  following = new AbortController();
  follow(following.signal, heard, (state) => {
    live.textContent = state;
    live.classList.toggle("on", state === "live");
  });
}

function drawKeyButton() {
  keyButton.textContent = key() ? (may("write") ? "Key: set" : "Key: read only") : "Key";
  keyButton.title = key() ? `Roles of this key: ${rights()}` : "";
}

keyButton.addEventListener("click", async () => {
  const given = await askForKey(
    key() ? "A key is set; entering a new one replaces it." : "Without a key you only see public data.",
  );
  if (document.getElementById("key").returnValue === "forget") forgetKey();
  else if (!given) return;
  location.reload(); // remove everything that the previous key could access
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL fragment selects the tab
  content.focus();
});
/** `/` opens the search, unless the user is typing or a dialog is open. */
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest?.("input, select, textarea, dialog")) return;
  event.preventDefault();
  const field = document.getElementById("q");
  if (field) field.focus();
  else {
    searching = true;
    go("search");
  }
});
addEventListener("hashchange", () => {
  if (current().agent !== followedAs) followAgain(); // another agent may have access to other events
  show();
});

/** A browser opens at most six connections to a server across all tabs, so a hidden tab closes its stream. */
document.addEventListener("visibilitychange", () => {
  following.abort();
  if (document.hidden) return;
  followAgain();
  refresh();
});

async function start() {
  try {
    const latest = await learn();
    await learnRights();
    if (!location.hash && latest !== null) go("diary", "", { project: latest });
  } catch (error) {
    fill(content, failure(error, start));
    live.textContent = "not live";
    if (error.status === 401 || error.code === "unreachable") return;
    await learnRights();
  }
  drawKeyButton();
  followAgain();
  await show();
}

start();
