// A force-directed layout: linked nodes attract each other, nearby nodes repel, and all are pulled to the center. No
// I/O.

const CELL = 60;
const MOST_CELLS = 128;
const LINK = 80;
const CHARGE = 4000;
const GRAVITY = 0.012;
const SPRING = 0.4;
const KEPT = 0.6;
const COOLING = 0.985;
export const COLD = 0.01;

/** A layout of `count` nodes; `links` are pairs of node indexes. Nodes start on a spiral, the first in the center. */
export class Layout {
  #order;
  #cell;
  #starts = new Int32Array(0);
  #middleX = new Float64Array(0);
  #middleY = new Float64Array(0);

  constructor(count, links, before = null) {
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    this.vx = new Float64Array(count);
    this.vy = new Float64Array(count);
    this.sources = Int32Array.from(links, ([source]) => source);
    this.targets = Int32Array.from(links, ([, target]) => target);
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
    /** The node being dragged; forces do not move it. */
    this.held = -1;
    this.#order = new Int32Array(count);
    this.#cell = new Int32Array(count);
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
    const { x, y, vx, vy, degree, sources, targets } = this;
    for (let i = 0; i < sources.length; i += 1) {
      const a = sources[i];
      const b = targets[i];
      const dx = x[b] - x[a];
      const dy = y[b] - y[a];
      const distance = Math.sqrt(dx * dx + dy * dy) || 1;
      const pull = (SPRING * this.heat * (distance - LINK)) / distance / Math.min(degree[a], degree[b]);
      const share = degree[b] / (degree[a] + degree[b]); // the node with more links moves less
      vx[a] += dx * pull * share;
      vy[a] += dy * pull * share;
      vx[b] -= dx * pull * (1 - share);
      vy[b] -= dy * pull * (1 - share);
    }
  }

  /** Nodes repel the nodes in their own grid cell and the cells around it, and repel more distant cells as a whole. */
  #repel() {
    const [columns, rows] = this.#sorted();
    const starts = this.#starts;
    for (let row = 0; row < rows; row += 1)
      for (let column = 0; column < columns; column += 1) {
        const at = row * columns + column;
        const [from, to] = [starts[at], starts[at + 1]];
        if (from === to) continue;
        // the rest of this cell and the one beside it stand together in the order, as do the three below: each pair once
        this.#pushNodes(from, to, -1, column + 1 < columns ? starts[at + 2] : to);
        if (row + 1 < rows) {
          const below = at + columns;
          this.#pushNodes(
            from,
            to,
            starts[column ? below - 1 : below],
            starts[column + 1 < columns ? below + 2 : below + 1],
          );
        }
        for (let y = Math.max(0, row - 2); y <= Math.min(rows - 1, row + 2); y += 1)
          for (let x = Math.max(0, column - 2); x <= Math.min(columns - 1, column + 2); x += 1)
            if (Math.abs(y - row) === 2 || Math.abs(x - column) === 2) this.#pushFrom(from, to, y * columns + x);
      }
  }

  /** Sorts the nodes by grid cell; returns the number of columns and rows. */
  #sorted() {
    const { x, y } = this;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i += 1) {
      if (x[i] < left) left = x[i];
      if (x[i] > right) right = x[i];
      if (y[i] < top) top = y[i];
      if (y[i] > bottom) bottom = y[i];
    }
    const size = Math.max(CELL, (right - left) / MOST_CELLS, (bottom - top) / MOST_CELLS);
    const columns = Math.floor((right - left) / size) + 1;
    const rows = Math.floor((bottom - top) / size) + 1;
    if (this.#starts.length < columns * rows + 2) {
      this.#starts = new Int32Array(2 * columns * rows + 2);
      this.#middleX = new Float64Array(2 * columns * rows);
      this.#middleY = new Float64Array(2 * columns * rows);
    }
    const starts = this.#starts.fill(0);
    const middleX = this.#middleX.fill(0);
    const middleY = this.#middleY.fill(0);
    for (let i = 0; i < x.length; i += 1) {
      const cell = Math.floor((y[i] - top) / size) * columns + Math.floor((x[i] - left) / size);
      this.#cell[i] = cell;
      starts[cell + 1] += 1;
      middleX[cell] += x[i];
      middleY[cell] += y[i];
    }
    for (let at = 0; at < columns * rows; at += 1) starts[at + 1] += starts[at];
    for (let i = x.length - 1; i >= 0; i -= 1) this.#order[--starts[this.#cell[i] + 1]] = i;
    // each start was moved to that of its own cell, which stands one place behind
    starts.copyWithin(0, 1, columns * rows + 1);
    starts[columns * rows] = x.length;
    return [columns, rows];
  }

  /** Pushes the nodes at some places of the order away from those at others; `first` -1: from all behind themselves. */
  #pushNodes(from, to, first, last) {
    const { x, y, vx, vy } = this;
    const order = this.#order;
    const charge = CHARGE * this.heat;
    for (let at = from; at < to; at += 1) {
      const a = order[at];
      const ax = x[a];
      const ay = y[a];
      let [pushX, pushY] = [0, 0];
      for (let other = first < 0 ? at + 1 : first; other < last; other += 1) {
        const b = order[other];
        const dx = x[b] - ax || 0.01 * (a - b);
        const dy = y[b] - ay || 0.01;
        const square = dx * dx + dy * dy;
        const force = Math.min(0.5, charge / (square * Math.sqrt(square) + 1000));
        pushX += dx * force;
        pushY += dy * force;
        vx[b] += dx * force;
        vy[b] += dy * force;
      }
      vx[a] -= pushX;
      vy[a] -= pushY;
    }
  }

  /** Pushes the nodes at some places of the order away from the middle of a cell, as from all nodes in it. */
  #pushFrom(from, to, cell) {
    const count = this.#starts[cell + 1] - this.#starts[cell];
    if (!count) return;
    const { x, y, vx, vy } = this;
    const charge = CHARGE * this.heat * count;
    const middleX = this.#middleX[cell] / count;
    const middleY = this.#middleY[cell] / count;
    for (let at = from; at < to; at += 1) {
      const a = this.#order[at];
      const dx = middleX - x[a];
      const dy = middleY - y[a];
      const square = dx * dx + dy * dy;
      const force = charge / (square * Math.sqrt(square) + 1000);
      vx[a] -= dx * force;
      vy[a] -= dy * force;
    }
  }
}
