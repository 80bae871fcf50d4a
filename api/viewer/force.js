// A force-directed layout: linked nodes attract each other, nearby nodes repel, and all are pulled to the center. No
// I/O.

const LINK = 80;
const CHARGE = 4000;
const GRAVITY = 0.012;
const SPRING = 0.4;
const KEPT = 0.6;
const COOLING = 0.985;
export const COLD = 0.01;

/** A layout of `count` nodes; `links` are pairs of node indexes. Nodes start on a spiral, the first in the center. */
export class Layout {
  constructor(count, links, before = null) {
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    this.vx = new Float64Array(count);
    this.vy = new Float64Array(count);
    this.links = links;
    this.degree = new Uint32Array(count);
    for (const [a, b] of links) {
      this.degree[a] += 1;
      this.degree[b] += 1;
    }
    for (let i = 0; i < count; i += 1) {
      const radius = 14 * Math.sqrt(i + 0.5);
      this.x[i] = before?.x[i] ?? radius * Math.cos(2.4 * i);
      this.y[i] = before?.y[i] ?? radius * Math.sin(2.4 * i);
    }
    this.heat = 1;
    /** The node being dragged; forces do not move it. */
    this.held = -1;
  }

  /** Moves all nodes one step; each step lowers the heat. */
  tick() {
    const { x, y, vx, vy, heat, held } = this;
    this.#attract();
    this.#repel();
    for (let i = 0; i < x.length; i += 1) {
      vx[i] = (vx[i] - x[i] * GRAVITY * heat) * KEPT;
      vy[i] = (vy[i] - y[i] * GRAVITY * heat) * KEPT;
      if (i === held) continue;
      x[i] += vx[i];
      y[i] += vy[i];
    }
    this.heat *= COOLING;
  }

  #attract() {
    const { x, y, vx, vy, degree } = this;
    for (const [a, b] of this.links) {
      const dx = x[b] - x[a];
      const dy = y[b] - y[a];
      const distance = Math.hypot(dx, dy) || 1;
      // shared among a node's links, so that many links do not throw it about
      const pull = (SPRING * this.heat * (distance - LINK)) / distance / Math.max(degree[a], degree[b]);
      vx[a] += dx * pull;
      vy[a] += dy * pull;
      vx[b] -= dx * pull;
      vy[b] -= dy * pull;
    }
  }

  /** Every two nodes repel each other. A graph has at most 2,000 nodes, which takes 30 ms a step. */
  #repel() {
    const { x, y, vx, vy } = this;
    const charge = CHARGE * this.heat;
    for (let a = 0; a < x.length; a += 1)
      for (let b = a + 1; b < x.length; b += 1) {
        const dx = x[b] - x[a] || 0.01 * (a - b);
        const dy = y[b] - y[a] || 0.01;
        const square = dx * dx + dy * dy;
        const force = Math.min(0.5, charge / (square * Math.sqrt(square) + 1000));
        vx[a] -= dx * force;
        vy[a] -= dy * force;
        vx[b] += dx * force;
        vy[b] += dy * force;
      }
  }
}
