// A graph on a canvas that can be dragged and zoomed, by pointer and by keyboard.

import { el } from "./dom.js";
import { COLD, Layout } from "./force.js";
import { shortened, shortenedInFront } from "./text.js";

const [RADIUS, LARGEST] = [5, 14];
const NAMED = 60;
const WARM = 0.3;
const STEP = 40;
const TICKS_MS = 6;
const LINKS_MOVING = 3000;

/** A graph on a canvas; `kinds` maps node types to colors, `onChoose(node)` is called with the selected node. */
export function canvas(graph, kinds, onChoose) {
  const element = el("canvas", {
    class: "graph",
    tabindex: 0,
    role: "img",
    "aria-label": "Graph; the nodes are also listed below",
  });
  const pen = element.getContext("2d");
  const view = { x: 0, y: 0, scale: 1, own: false };
  let layout = new Layout(graph.nodes.length, graph.links);
  let most = linkedMost(layout, graph);
  let kept = byColor(graph, kinds);
  let color = colors(element);
  let [chosen, grip, running, late] = [-1, null, false, false];

  /** Draws, and continues as long as nodes are moving and the canvas is on the page. */
  function frame() {
    running = element.isConnected && layout.heat > COLD;
    if (running) move();
    draw();
    if (running) requestAnimationFrame(frame);
  }

  /** As many steps of a hot layout as there is time for, one of a warm one, and every other time none where that takes
   * long: a frame has to be drawn, too. */
  function move() {
    const began = performance.now();
    if (late) late = false;
    else {
      do layout.tick();
      while (layout.heat > WARM && performance.now() - began < TICKS_MS);
      late = performance.now() - began > 2 * TICKS_MS;
    }
  }

  function wake(heat = 0) {
    layout.heat = Math.max(layout.heat, heat);
    if (running) return;
    running = true;
    requestAnimationFrame(frame);
  }

  function draw() {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [element.clientWidth, element.clientHeight];
    if (element.width !== width * ratio || element.height !== height * ratio)
      [element.width, element.height] = [width * ratio, height * ratio];
    if (!view.own) fit(width, height);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(
      ratio * view.scale,
      0,
      0,
      ratio * view.scale,
      ratio * (width / 2 + view.x),
      ratio * (height / 2 + view.y),
    );
    const seen = inView(width, height);
    pen.lineWidth = 1 / view.scale;
    pen.strokeStyle = color("--line");
    pen.beginPath();
    // lines take most of a frame's time: while nodes move, only every second or third of very many is drawn
    const every = grip || running ? Math.ceil(layout.links.length / LINKS_MOVING) : 1;
    for (let i = 0; i < layout.links.length; i += every) {
      const [a, b] = layout.links[i];
      if (!seen(a) && !seen(b)) continue;
      pen.moveTo(layout.x[a], layout.y[a]);
      pen.lineTo(layout.x[b], layout.y[b]);
    }
    pen.stroke();
    for (const [name, some] of kept) {
      pen.fillStyle = color(name);
      for (const i of some) if (seen(i)) disc(i); // a single path with all of them takes longer
    }
    names(color("--text"), color("--card"));
  }

  /** Whether a node is within the visible canvas. */
  function inView(width, height) {
    const [left, top] = [(-width / 2 - view.x) / view.scale - LARGEST, (-height / 2 - view.y) / view.scale - LARGEST];
    const [right, bottom] = [left + width / view.scale + 2 * LARGEST, top + height / view.scale + 2 * LARGEST];
    return (i) => layout.x[i] > left && layout.x[i] < right && layout.y[i] > top && layout.y[i] < bottom;
  }

  function disc(i) {
    pen.beginPath();
    pen.arc(layout.x[i], layout.y[i], size(i), 0, 2 * Math.PI);
    pen.fill();
  }

  const size = (i) => RADIUS + Math.min(LARGEST - RADIUS, Math.sqrt(layout.degree[i]));

  /** Until the user pans or zooms, the whole graph is in view. */
  function fit(width, height) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < layout.x.length; i += 1) {
      left = Math.min(left, layout.x[i]);
      right = Math.max(right, layout.x[i]);
      top = Math.min(top, layout.y[i]);
      bottom = Math.max(bottom, layout.y[i]);
    }
    view.scale = Math.min(1.6, width / (right - left + 260), height / (bottom - top + 80));
    [view.x, view.y] = [(-view.scale * (left + right + 120)) / 2, (-view.scale * (top + bottom)) / 2];
  }

  /** Labels of the selected node and of the nodes with the most links, as long as labels do not overlap. */
  function names(color, ground) {
    pen.fillStyle = color;
    pen.font = `${12 / view.scale}px system-ui, sans-serif`;
    pen.strokeStyle = ground;
    pen.lineWidth = 3 / view.scale;
    const taken = [];
    for (const [i, words] of chosen < 0 ? most : [[chosen, named(graph, chosen)], ...most]) {
      const [x, y] = [layout.x[i] + size(i) + 3 / view.scale, layout.y[i] + 4 / view.scale];
      const [width, height] = [(words.length * 6.5) / view.scale, 14 / view.scale];
      if (taken.some(([left, top, wide]) => x < left + wide && left < x + width && Math.abs(y - top) < height))
        continue;
      taken.push([x, y, width]);
      pen.strokeText(words, x, y);
      pen.fillText(words, x, y);
    }
    if (chosen < 0) return;
    for (const [link, ends] of graph.links.entries()) {
      if (!ends.includes(chosen)) continue;
      const [a, b] = ends;
      const [x, y] = [(layout.x[a] + layout.x[b]) / 2, (layout.y[a] + layout.y[b]) / 2];
      pen.strokeText(graph.labels[link], x, y);
      pen.fillText(graph.labels[link], x, y);
    }
    pen.strokeStyle = color;
    pen.lineWidth = 2 / view.scale;
    pen.beginPath();
    pen.arc(layout.x[chosen], layout.y[chosen], size(chosen) + 2, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** The pointer position in layout coordinates. */
  function at(event) {
    const box = element.getBoundingClientRect();
    return [
      (event.clientX - box.x - box.width / 2 - view.x) / view.scale,
      (event.clientY - box.y - box.height / 2 - view.y) / view.scale,
    ];
  }

  function nearest([x, y]) {
    let [best, least] = [-1, (14 / view.scale) ** 2];
    for (let i = 0; i < layout.x.length; i += 1) {
      const square = (layout.x[i] - x) ** 2 + (layout.y[i] - y) ** 2;
      if (square < Math.max(least, size(i) ** 2)) [best, least] = [i, square];
    }
    return best;
  }

  function choose(i) {
    chosen = i;
    onChoose(graph.nodes[i]);
  }

  function zoom(factor) {
    view.own = true;
    view.scale = Math.min(5, Math.max(0.1, view.scale * factor));
    wake();
  }

  element.addEventListener("pointerdown", (event) => {
    const node = nearest(at(event));
    grip = { node, x: event.clientX - view.x, y: event.clientY - view.y };
    layout.held = node;
    if (node >= 0) choose(node);
    element.setPointerCapture(event.pointerId);
    wake();
  });
  element.addEventListener("pointermove", (event) => {
    if (!grip) return;
    view.own = true; // dragging must not move the other nodes
    if (grip.node < 0) [view.x, view.y] = [event.clientX - grip.x, event.clientY - grip.y];
    else [layout.x[grip.node], layout.y[grip.node]] = at(event);
    wake(grip.node < 0 ? 0 : WARM);
  });
  for (const ending of ["pointerup", "pointercancel"])
    element.addEventListener(ending, () => {
      grip = null;
      layout.held = -1;
      wake();
    });
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    },
    { passive: false },
  );
  element.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] }[event.key];
    if (move) {
      view.own = true;
      view.x += move[0];
      view.y += move[1];
      wake();
    } else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.2 : 1 / 1.2);
    else if (event.key === "n" || event.key === "p")
      choose((chosen + (event.key === "n" ? 1 : graph.nodes.length - 1) + graph.nodes.length) % graph.nodes.length);
    else return;
    event.preventDefault();
    wake();
  });
  new ResizeObserver(() => wake()).observe(element);
  DARK.addEventListener("change", function recolored() {
    if (!element.isConnected) DARK.removeEventListener("change", recolored);
    color = colors(element);
    wake();
  });

  return {
    element,
    changed() {
      layout = new Layout(graph.nodes.length, graph.links, layout);
      most = linkedMost(layout, graph);
      kept = byColor(graph, kinds);
      wake(1);
    },
  };
}

const DARK = matchMedia("(prefers-color-scheme: dark)");
/** A label shortened to fit: the beginning of a memory, the end of a path. */
const named = ({ nodes }, i) =>
  nodes[i].type === "memory" ? shortened(nodes[i].label, 32) : shortenedInFront(nodes[i].label, 32);

/** The indexes and names of the nodes with the most links, most links first. */
const linkedMost = ({ degree }, graph) =>
  [...degree.keys()]
    .sort((a, b) => degree[b] - degree[a])
    .slice(0, NAMED)
    .map((i) => [i, named(graph, i)]);

/** The node indexes by color. */
function byColor({ nodes }, kinds) {
  const found = new Map();
  nodes.forEach(({ type }, i) => {
    const name = kinds[type] ?? "--quiet";
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(i);
  });
  return found;
}

/** The colors by their names in the style sheet, each looked up once, after the element is on the page. */
function colors(element) {
  const known = new Map();
  return (name) => {
    if (!known.get(name)) known.set(name, getComputedStyle(element).getPropertyValue(name));
    return known.get(name);
  };
}
