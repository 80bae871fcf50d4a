// The permissions of the key, so that the page offers nothing else. The server enforces them.

import { send } from "./api.js";
import { key } from "./key.js";

/** For each role, a request that requires it and changes nothing. */
const ASKED = {
  read: ["GET", "/v1/sessions", { params: { limit: 1 } }],
  write: ["POST", "/v1/events", { body: [] }],
  admin: ["GET", "/v1/admin/keys"],
  operator: ["GET", "/v1/admin/projections"],
};
const refused = new Set();

/** Asks the server which roles the key has; a server without keys allows everything. The request names no agent, since
 * roles belong to the key. If the server is too busy to answer, no role is removed. */
export async function learnRights() {
  if (!key()) return;
  await Promise.all(
    Object.entries(ASKED).map(async ([role, [method, path, options]]) => {
      const asked = send(method, path, { ...options, headers: { "X-Agent-Id": "" }, asks: false });
      const { status } = await asked.catch((refusal) => refusal);
      if (status === 403) refused.add(role);
    }),
  );
}

/** Whether the key has a role. */
export const may = (role) => !refused.has(role);

/** The key's roles, as text. */
export const rights = () => Object.keys(ASKED).filter(may).join(", ");
