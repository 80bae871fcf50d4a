// A force-directed layout: linked nodes attract one another, near ones repel, all are drawn to the middle. No I/O.

const REACH = 150;
const LINK = 80;
const CHARGE = 4000;
const GRAVITY = 0.012;
const SPRING = 0.4;
const KEPT = 0.6;
const COOLING = 0.985;
export const COLD = 0.01;

/** A layout of `count` nodes; `links` are pairs of their numbers. Nodes begin on a spiral, the first in the middle. */
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
      this.x[i] = before && i < before.x.length ? before.x[i] : 14 * Math.sqrt(i + 0.5) * Math.cos(2.4 * i);
      this.y[i] = before && i < before.y.length ? before.y[i] : 14 * Math.sqrt(i + 0.5) * Math.sin(2.4 * i);
    }
    this.heat = 1;
    /** The node that somebody holds: it stays where it is put. */
    this.held = -1;
  }

  /** Moves all nodes one step; the heat falls with each. */
  tick() {
    this.#attract();
    this.#repel();
    for (let i = 0; i < this.x.length; i += 1) {
      this.vx[i] = (this.vx[i] - this.x[i] * GRAVITY * this.heat) * KEPT;
      this.vy[i] = (this.vy[i] - this.y[i] * GRAVITY * this.heat) * KEPT;
      if (i === this.held) continue;
      this.x[i] += this.vx[i];
      this.y[i] += this.vy[i];
    }
    this.heat *= COOLING;
  }

  #attract() {
    const { x, y, vx, vy, degree } = this;
    for (const [a, b] of this.links) {
      const [dx, dy] = [x[b] - x[a], y[b] - y[a]];
      const distance = Math.hypot(dx, dy) || 1;
      const pull = (SPRING * this.heat * (distance - LINK)) / distance / Math.min(degree[a], degree[b]);
      const share = degree[b] / (degree[a] + degree[b]); // the one with more links moves less
      vx[a] += dx * pull * share;
      vy[a] += dy * pull * share;
      vx[b] -= dx * pull * (1 - share);
      vy[b] -= dy * pull * (1 - share);
    }
  }

  /** Only nodes within REACH repel: each looks at the cells of a grid around its own. */
  #repel() {
    const { x, y } = this;
    const grid = new Map();
    const cell = (i) => Math.floor(x[i] / REACH) * 65536 + Math.floor(y[i] / REACH);
    for (let i = 0; i < x.length; i += 1) {
      const at = cell(i);
      const there = grid.get(at);
      if (there) there.push(i);
      else grid.set(at, [i]);
    }
    for (const [at, there] of grid) {
      for (let i = 0; i < there.length; i += 1)
        for (let j = i + 1; j < there.length; j += 1) this.#push(there[i], there[j]);
      for (const beside of [at + 1, at + 65535, at + 65536, at + 65537]) {
        const others = grid.get(beside);
        if (others) for (const a of there) for (const b of others) this.#push(a, b);
      }
    }
  }

  #push(a, b) {
    const { x, y, vx, vy } = this;
    const dx = x[b] - x[a] || 0.01 * (a - b);
    const dy = y[b] - y[a] || 0.01;
    const square = dx * dx + dy * dy;
    if (square > REACH * REACH) return;
    const force = Math.min(0.5, (CHARGE * this.heat) / (square * Math.sqrt(square) + 1000));
    vx[a] -= dx * force;
    vy[a] -= dy * force;
    vx[b] += dx * force;
    vy[b] += dy * force;
  }
}
