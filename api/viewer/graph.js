// The graph of projects, sessions, memories, files and concepts: drawn on a canvas, expanded when a node is clicked.

import { read } from "./api.js";
import { canvas } from "./drawing.js";
import { el, fill } from "./dom.js";
import { action, empty, filters, link, tag, typed } from "./parts.js";
import { href } from "./route.js";
import { count, shortened } from "./text.js";

export const title = "Graph";
const LIMIT = 500;
const LISTED = 100;
const MOST = 2000;
export const KINDS = {
  memory: "--mix",
  session: "--coverage",
  file: "--neighbours",
  concept: "--author",
  project: "--time",
};

const EDGES = {
  in_project: "in project",
  in_session: "in session",
  touches: "touches",
  mentions: "mentions",
  supersedes: "replaces",
};

export async function show(route) {
  const start = route.params.get("start") ?? "";
  const drawing = await read("/v1/graph", {
    project: route.project ?? undefined,
    start: start || undefined,
    depth: start ? 2 : undefined,
    limit: LIMIT,
  });
  const known = new Graph();
  known.add(drawing);
  if (!known.nodes.length)
    return empty(
      "Nothing to draw",
      start
        ? "No node has that name. Valid names are file:PATH, concept:NAME, session:ID, project:NAME, or a memory's id."
        : "The graph starts from memories; agents save them with the tool `remember`.",
    );
  const said = el("p", { class: "quiet", role: "status" });
  const chosen = el("div", { class: "chosen-node", role: "status" });
  const drawn = canvas(known, KINDS, (node) => describe(node));
  const tell = () => {
    said.textContent = `${count(known.nodes.length, "node")} of ${drawing.total_nodes}. Drag nodes or the background, zoom with the wheel or + and −, click a node to see how it is connected.`;
  };

  async function grow(node) {
    if (known.nodes.length >= MOST) return `The graph shows at most ${MOST} nodes.`;
    const before = known.nodes.length;
    known.add(await read("/v1/graph", { start: node.id, depth: 1, limit: Math.min(LIMIT, MOST - before) }));
    drawn.changed();
    tell();
    list();
    return known.nodes.length === before ? "All of its neighbors are shown." : "";
  }

  function describe(node) {
    const home = address(node);
    fill(
      chosen,
      node && [
        tag(node.type, node.type),
        " ",
        home ? el("a", { href: home }, shortened(node.label, 140)) : node.label,
        " ",
        action("Show its neighbors", () => grow(node)),
        " ",
        link("Start here", "graph", "", { start: node.id }),
      ],
    );
  }

  const items = el("ul", { class: "plain" });
  const list = () =>
    fill(
      items,
      known.nodes
        .slice(0, LISTED)
        .map((node) =>
          el(
            "li",
            {},
            tag(node.type),
            " ",
            address(node) ? el("a", { href: address(node) }, shortened(node.label, 140)) : node.label,
          ),
        ),
    );
  tell();
  list();
  return el(
    "div",
    {},
    filters(
      typed(route.params, "start", "Start at", { placeholder: "file:src/pool.py" }),
      el(
        "p",
        { class: "legend" },
        Object.keys(KINDS).map((kind) => el("span", {}, el("span", { class: `dot ${kind}` }), kind)),
      ),
    ),
    chosen,
    drawn.element,
    said,
    el("details", {}, el("summary", {}, "Show as a list"), items),
  );
}

function address(node) {
  if (!node) return null;
  if (node.type === "memory") return href("memories", node.id);
  if (node.type === "session") return href("sessions", node.id.slice("session:".length));
  return null;
}

/** Nodes and the links between them, without duplicates. A file is one node, even if different parts of its path were
 * recorded. */
class Graph {
  nodes = [];
  links = [];
  /** The label of each link. */
  labels = [];
  #files = new Map();
  #places = new Map();
  #linked = new Set();

  add({ nodes, edges }) {
    for (const node of nodes) {
      if (this.#places.has(node.id)) continue;
      const same = node.type === "file" ? this.#sameFile(node) : undefined;
      this.#places.set(node.id, same ?? this.nodes.length);
      if (same === undefined) this.nodes.push(node);
    }
    for (const { source, target, type } of edges) {
      const pair = [this.#places.get(source), this.#places.get(target)];
      if (pair.includes(undefined) || this.#linked.has(pair.join())) continue;
      this.#linked.add(pair.join());
      this.links.push(pair);
      this.labels.push(EDGES[type] ?? type.replaceAll("_", " "));
    }
  }

  /** The index of a file whose path ends with this path, or the reverse; a name without a folder is not enough. */
  #sameFile({ label }) {
    const path = label.replace(/^\.?\//, "");
    const name = path.split("/").at(-1);
    const others = this.#files.get(name) ?? this.#files.set(name, []).get(name);
    const same = others.find(([other]) => {
      const [short, long] = [path, other].sort((a, b) => a.length - b.length);
      return short === long || (short.includes("/") && long.endsWith(`/${short}`));
    });
    if (!same) others.push([path, this.nodes.length]);
    return same?.[1];
  }
}

export const follows = () => false;
