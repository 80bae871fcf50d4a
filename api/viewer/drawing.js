// A graph on a canvas that can be dragged and zoomed, by pointer and by keyboard.

import { el } from "./dom.js";
import { COLD, Layout } from "./force.js";
import { shortened } from "./text.js";

const RADIUS = 5;
const NAMED = 60;
const WARM = 0.3;
const STEP = 40;

/** The canvas of a graph; `kinds` name the colours of its types, `onChoose(node)` hears which node is chosen. */
export function canvas(graph, kinds, onChoose) {
  const element = el("canvas", {
    class: "graph",
    tabindex: 0,
    role: "img",
    "aria-label": "The graph; its nodes are in the list below",
  });
  const pen = element.getContext("2d");
  const view = { x: 0, y: 0, scale: 1, own: false };
  let layout = new Layout(graph.nodes.length, graph.links);
  let most = linkedMost(layout);
  let [chosen, grip, running] = [-1, null, false];

  /** Draws, and goes on as long as something moves and the canvas is there. */
  function frame() {
    running = element.isConnected && layout.heat > COLD;
    if (layout.heat > COLD) layout.tick();
    draw();
    if (running) requestAnimationFrame(frame);
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
    const color = (name) => getComputedStyle(element).getPropertyValue(name);
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
    pen.lineWidth = 1 / view.scale;
    pen.strokeStyle = color("--line");
    pen.beginPath();
    for (const [a, b] of layout.links) {
      pen.moveTo(layout.x[a], layout.y[a]);
      pen.lineTo(layout.x[b], layout.y[b]);
    }
    pen.stroke();
    for (const [kind, name] of [...Object.entries(kinds), ["", "--quiet"]]) {
      pen.fillStyle = color(name);
      pen.beginPath();
      graph.nodes.forEach((node, i) => {
        if ((kinds[node.type] ? node.type : "") === kind) circle(i, size(i));
      });
      pen.fill();
    }
    names(color("--text"), color("--card"));
  }

  function circle(i, radius) {
    pen.moveTo(layout.x[i] + radius, layout.y[i]);
    pen.arc(layout.x[i], layout.y[i], radius, 0, 2 * Math.PI);
  }

  const size = (i) => RADIUS + Math.min(9, Math.sqrt(layout.degree[i]));

  /** As long as nobody has moved or zoomed it, all of the graph is in view. */
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

  /** The name of the chosen node, and of those with the most links as far as they do not cover one another. */
  function names(color, ground) {
    pen.fillStyle = color;
    pen.font = `${12 / view.scale}px system-ui, sans-serif`;
    pen.strokeStyle = ground;
    pen.lineWidth = 3 / view.scale;
    const taken = [];
    for (const i of chosen < 0 ? most : [chosen, ...most]) {
      const words = shortened(graph.nodes[i].label, 32);
      const [x, y] = [layout.x[i] + size(i) + 3 / view.scale, layout.y[i] + 4 / view.scale];
      const [width, height] = [(words.length * 6.5) / view.scale, 14 / view.scale];
      if (taken.some(([left, top, wide]) => x < left + wide && left < x + width && Math.abs(y - top) < height))
        continue;
      taken.push([x, y, width]);
      pen.strokeText(words, x, y);
      pen.fillText(words, x, y);
    }
    if (chosen < 0) return;
    pen.strokeStyle = color;
    pen.lineWidth = 2 / view.scale;
    pen.beginPath();
    circle(chosen, size(chosen) + 2);
    pen.stroke();
  }

  /** Where a pointer is, in the layout's own measure. */
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
    view.own = true; // what is dragged must not make the rest move
    if (grip.node < 0) [view.x, view.y] = [event.clientX - grip.x, event.clientY - grip.y];
    else [layout.x[grip.node], layout.y[grip.node]] = at(event);
    wake(grip.node < 0 ? 0 : WARM);
  });
  for (const ending of ["pointerup", "pointercancel"])
    element.addEventListener(ending, () => {
      grip = null;
      layout.held = -1;
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

  return {
    element,
    changed() {
      layout = new Layout(graph.nodes.length, graph.links, layout);
      most = linkedMost(layout);
      wake(1);
    },
  };
}

/** The numbers of the nodes with the most links, those with more first. */
function linkedMost({ degree }) {
  return [...degree.keys()].sort((a, b) => degree[b] - degree[a]).slice(0, NAMED);
}
