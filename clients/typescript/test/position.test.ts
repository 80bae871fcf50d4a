/** Positions join, the newest of each partition counting. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Position } from "../src/index.ts";

test("the newest position of each partition counts whatever the order", () => {
  const position = new Position("3:17-10");
  for (const one of ["1:5-0,3:17-9", "3:9-99", ""]) position.include(one);
  assert.equal(String(position), "1:5-0,3:17-10");
});

test("including ten thousand positions keeps one a partition", () => {
  const position = new Position();
  for (let ms = 0; ms < 10_000; ms += 1) position.include(`${ms % 4}:${ms}-0`);
  assert.equal(String(position), "0:9996-0,1:9997-0,2:9998-0,3:9999-0");
});

for (const text of ["nonsense", "1:2", "1:2-x", "x:2-3"]) {
  test(`what is no position is refused and includes nothing: ${text}`, () => {
    const position = new Position("1:1-0");
    assert.throws(() => position.include(`1:9-0,${text}`), /is not a position/);
    assert.equal(String(position), "1:1-0");
  });
}
