// Projects and agents that the page can offer: those with documents, those of the newest writes, and those seen since.

import { get } from "./api.js";

const LIMIT = 200;
const projects = new Set();
const agents = new Set();

export const knownProjects = () => [...projects].sort();
export const knownAgents = () => [...agents].sort();

/** Adds the names in a document or an event; returns whether any was new. */
export function note({ project, agent_id: agent }) {
  const before = projects.size + agents.size;
  if (typeof project === "string" && projects.size < LIMIT) projects.add(project);
  if (agent && agents.size < LIMIT) agents.add(agent);
  return projects.size + agents.size > before;
}

/** Reads the names; returns the most recently active project, or null. Raises Refused for a key without read access. An
 * agent that has only private memories is listed only among the writes. */
export async function learn() {
  const [found, writers, sessions, audit] = await Promise.all([
    get("/v1/projects", { limit: LIMIT }),
    get("/v1/agents", { limit: LIMIT }),
    get("/v1/sessions", { limit: 1 }),
    get("/v1/audit", { operation: "*", limit: LIMIT }),
  ]);
  [...found.items, ...writers.items, ...audit.entries].forEach(note);
  return sessions.items[0]?.project ?? audit.entries[0]?.project ?? null;
}
