// The URL fragment: the tab, the document and the reader. Every link keeps the project and the agent.

export const KEPT = ["project", "agent"];

/** The current route: `#/tab/id?name=value`. A `project` of null means all projects, "" the project without a name. */
export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [tab = "", ...rest] = path.split("/");
  const params = new URLSearchParams(query);
  return { tab, id: decoded(rest.join("/")), params, project: params.get("project"), agent: params.get("agent") ?? "" };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % was typed
  }
}

/** The URL of a route. The project and the agent stay unless `params` names them; null removes them. */
export function href(tab, id = "", params = {}) {
  const now = current().params;
  const all = new URLSearchParams();
  for (const name of KEPT) if (now.has(name)) all.set(name, now.get(name));
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined) all.delete(name);
    else all.set(name, value);
  }
  const query = all.toString();
  return `#/${tab}${id ? `/${encodeURIComponent(id)}` : ""}${query ? `?${query}` : ""}`;
}

export function go(tab, id, params) {
  location.hash = href(tab, id, params);
}

/** Stays on the page and changes these parameters. */
export function change(params) {
  const { tab, id, params: now } = current();
  go(tab, id, { ...Object.fromEntries(now), ...params });
}

/** Changes parameters without a refresh, because the page is already up to date. */
export function stay(params) {
  const { tab, id, params: now } = current();
  history.replaceState(null, "", href(tab, id, { ...Object.fromEntries(now), ...params }));
}

/** Refreshes the page. */
export const again = () => dispatchEvent(new HashChangeEvent("hashchange"));
