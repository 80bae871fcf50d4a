// The address behind the #: which tab, which document, whose view. Every link keeps the project and the agent.

export const KEPT = ["project", "agent"];

/** Where the page is: `#/tab/id?name=value`. A `project` of null means all projects, "" the project without a name. */
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
    return text; // somebody typed a lone %
  }
}

/** The address of a place. What `params` does not name of the project and the agent stays; null takes it away. */
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

/** Stay, with other parameters: those that there are, and these. */
export function change(params) {
  const { tab, id, params: now } = current();
  go(tab, id, { ...Object.fromEntries(now), ...params });
}

/** The same without showing anything again: for what the page shows already. */
export function stay(params) {
  const { tab, id, params: now } = current();
  history.replaceState(null, "", href(tab, id, { ...Object.fromEntries(now), ...params }));
}

/** Shows what the address names once more. */
export const again = () => dispatchEvent(new HashChangeEvent("hashchange"));
