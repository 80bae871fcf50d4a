// Documents of any kind by id: their API path, and a one-line link with their text.

import { found } from "./api.js";
import { el } from "./dom.js";
import { href } from "./route.js";
import { shortened } from "./text.js";
import { aside } from "./parts.js";

const COLLECTIONS = {
  obs: "observations",
  mem: "memories",
  lsn: "lessons",
  act: "actions",
  rel: "relations",
  cmt: "commits",
  sum: "summaries",
};

/** A link with the document's text, or only its id if the reader has no access. */
export async function documentLine(id) {
  const collection = COLLECTIONS[id.split("_", 1)[0]];
  const known = collection ? await found(`/v1/${collection}/${encodeURIComponent(id)}`) : null;
  if (known === null) return aside(`${id}: deleted, or you don't have access`);
  const words = shortened(known.headline || known.title || known.content || known.message || known.commit || id, 140);
  const home = address(collection, known);
  return home ? el("a", { href: home }, words) : el("span", {}, words);
}

function address(collection, known) {
  if (collection === "memories" || collection === "lessons" || collection === "actions")
    return href(collection, known.id, { project: known.project });
  return known.session_id
    ? href("sessions", known.session_id, {
        project: known.project,
        turn: collection === "observations" ? known.id : null,
      })
    : null;
}
