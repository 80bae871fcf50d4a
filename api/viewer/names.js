// Projects and agents that the page knows of: from the newest sessions and writes, and from what was seen since.

import { seen } from "./activity.js";
import { get } from "./api.js";

const LIMIT = 200;
const projects = new Set();
const agents = new Set();

export const knownProjects = () => [...projects].sort();
export const knownAgents = () => [...agents].sort();

/** Notes the names in a document or an event; whether there was a new one. */
export function note({ project, agent_id: agent }) {
  const before = projects.size + agents.size;
  if (typeof project === "string" && projects.size < LIMIT) projects.add(project);
  if (agent && agents.size < LIMIT) agents.add(agent);
  return projects.size + agents.size > before;
}

/** Reads the names from the newest sessions and writes; answers the project that was worked in last, or null. Raises
 * Refused for a key that may not read. */
export async function learn() {
  const [sessions, audit] = await Promise.all([
    get("/v1/sessions", { limit: LIMIT }),
    get("/v1/audit", { operation: "*", limit: LIMIT }),
  ]);
  [...sessions.items, ...audit.entries].forEach(note);
  for (const { at } of audit.entries) seen(Date.parse(at));
  return sessions.items[0]?.project ?? audit.entries[0]?.project ?? null;
}
