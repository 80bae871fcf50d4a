// Requests to the native API, with the key and as the agent that "Read as" selects; and error messages.

import { askForKey, key } from "./key.js";
import { current } from "./route.js";

const WORDS = {
  forbidden: "This key does not have access.",
  not_found: "Not found, or you don't have access.",
  overloaded: "The server is overloaded, or this key sent too many requests. Nothing was changed.",
  log_unavailable: "Redis is not responding.",
  projection_behind: "The latest writes are not applied yet.",
  durability_not_reached: "Written, but not yet as durable as requested.",
  already_there: "Already exists.",
  version_conflict: "Somebody else changed it first; nothing was changed.",
  claimed: "Nothing was changed.",
  stale_token: "Nothing was changed.",
  internal: "Server error; see its log.",
  unreachable: "The server is not responding. Is it running?",
};
const AGAIN = new Set(["overloaded", "log_unavailable", "projection_behind", "unreachable"]);
let written = "";

/** A request that failed or got no response. */
export class Refused extends Error {
  constructor(status, code, message, field = "") {
    super([WORDS[code], message, field && `(field: ${field})`].filter(Boolean).join(" "));
    Object.assign(this, { status, code, field, passing: AGAIN.has(code) });
  }
}

/** Sends a request and returns the response; prompts for a key whenever the server requires one. Raises
 * Refused, but for the statuses in `accept`; `asks` false asks for no key. */
export async function send(method, path, { params = {}, body, headers = {}, signal, accept = [], asks = true } = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null);
  const address = given.length ? `${path}?${new URLSearchParams(given)}` : path;
  for (;;) {
    const used = key();
    const response = await answered(address, {
      method,
      signal,
      body: body && JSON.stringify(body),
      headers: { ...own(used), ...headers },
    });
    if (response.status === 401 && asks) {
      if (
        key() !== used ||
        (await askForKey(used ? "Invalid key." : "This server requires a key."))
      )
        continue;
    }
    if (response.ok || accept.includes(response.status)) return response;
    throw await refusal(response);
  }
}

function own(used) {
  const { agent } = current();
  return { ...(used && { Authorization: `Bearer ${used}` }), ...(agent && { "X-Agent-Id": agent }) };
}

async function answered(address, request) {
  try {
    return await fetch(address, { ...request, credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", error.message);
  }
}

async function refusal(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // an error from a proxy in front of the API has no `detail`
  }
  return new Refused(
    response.status,
    problem.code ?? "",
    problem.detail ?? `The server answered ${response.status}.`,
    problem.field,
  );
}

const json = async (...request) => (await send(...request)).json();

export const get = (path, params, options) => json("GET", path, { params, ...options });
export const post = (path, body, options) => json("POST", path, { body, ...options });

/** A read that waits until this page's last write is visible. */
export const read = (path, params, options) => get(path, { ...params, after: written || undefined }, options);

/** A write; later reads see it. */
export async function write(method, path, options = {}) {
  const answer = await json(method, path, options);
  written = answer.position || written;
  return answer;
}

/** The position of this page's last write, for a recall that must see it. */
export const lastWrite = () => written;

/** The document, or null if it does not exist or this reader has no access to it. */
export async function found(path, params) {
  try {
    return await read(path, params);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}
