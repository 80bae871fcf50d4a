/** What waits in a folder: in order, within its bounds, whole again after a crash. */

import assert from "node:assert/strict";
import { appendFile, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { test } from "node:test";

import { SMALLEST_SEGMENT_BYTES, Spool } from "../src/spool.ts";
import type { SpoolOptions } from "../src/spool.ts";
import type { Waiting } from "../src/waiting.ts";
import { InMemory } from "../src/waiting.ts";
import { folderOf } from "./support.ts";

const MANY = 1 << 30;

function spool(folder: string, options: Partial<SpoolOptions> = {}): Promise<Spool> {
  return Spool.open(folder, { maxBytes: MANY, fsync: false, log: assert.fail, ...options });
}

function lines(...texts: string[]): Uint8Array[] {
  return texts.map((one) => new TextEncoder().encode(one));
}

async function first(waiting: Waiting, count: number, size = MANY): Promise<string[]> {
  return (await waiting.first(count, size)).map((line) => new TextDecoder().decode(line));
}

async function segments(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith(".ndjson")).map((name) => join(folder, name));
}

const QUEUES: Record<string, (context: TestContext) => Promise<Waiting>> = {
  memory: async () => new InMemory(),
  spool: async (context) => spool(await folderOf(context)),
  "spool with fsync": async (context) => spool(await folderOf(context), { fsync: true }),
};

for (const [name, made] of Object.entries(QUEUES)) {
  test(`what waits leaves in the order it came: ${name}`, async (context) => {
    const waiting = await made(context);
    await waiting.append(lines("1", "2", "3"));
    assert.deepEqual(await first(waiting, 2), ["1", "2"]);
    assert.deepEqual(await first(waiting, 2), ["1", "2"]);
    await waiting.drop(lines("1", "2"));
    await waiting.append(lines("4"));
    assert.deepEqual([await first(waiting, 10), waiting.count], [["3", "4"], 2]);
    await waiting.drop(lines("3", "4"));
    assert.deepEqual([await first(waiting, 10), waiting.count, waiting.size], [[], 0, 0]);
    await waiting.append(lines("5"));
    assert.deepEqual([await first(waiting, 10), waiting.size], [["5"], 2]);
    await waiting.close();
  });

  test(`a batch has about as many bytes as asked for and one line at least: ${name}`, async (context) => {
    const waiting = await made(context);
    await waiting.append(lines("x".repeat(20), "y".repeat(20), "z".repeat(20)));
    assert.deepEqual(await first(waiting, 3, 45), ["x".repeat(20), "y".repeat(20)]);
    assert.deepEqual(await first(waiting, 3, 5), ["x".repeat(20)]);
    await waiting.close();
  });
}

test("what is asked for at once is done one after the other", async (context) => {
  const opened = await spool(await folderOf(context));
  const [, , taken] = await Promise.all([
    opened.append(lines("1", "2")),
    opened.append(lines("3")),
    first(opened, 10),
    opened.drop(lines("1", "2", "3")),
    opened.append(lines("4")),
  ]);
  assert.deepEqual([taken, await first(opened, 10)], [["1", "2", "3"], ["4"]]);
  await opened.close();
});

test("a spool that is opened again goes on where it was", async (context) => {
  const folder = await folderOf(context);
  const one = await spool(folder);
  await one.append(lines("1", "2", "3"));
  await one.drop(lines("1"));
  await one.close();
  const two = await spool(folder);
  assert.equal(two.count, 2);
  await two.append(lines("4"));
  await two.drop(lines("2"));
  await two.close();
  const three = await spool(folder);
  const taken: string[] = [];
  for (let batch = await first(three, 10); batch.length > 0; batch = await first(three, 10)) {
    taken.push(...batch);
    await three.drop(lines(...batch));
  }
  await three.close();
  assert.deepEqual(taken, ["3", "4"]);
  assert.deepEqual(await segments(folder), []);
});

test("a crash before the cursor was written repeats and loses nothing", async (context) => {
  const folder = await folderOf(context);
  const one = await spool(folder);
  await one.append(lines("1", "2", "3"));
  await one.drop(lines("1"));
  const older = await readFile(join(folder, "cursor"));
  await one.drop(lines("2"));
  await one.close();
  await writeFile(join(folder, "cursor"), older);
  const two = await spool(folder);
  assert.deepEqual(await first(two, 10), ["2", "3"]);
  await two.close();
});

test("a cursor of an older segment is not taken for a newer one", async (context) => {
  const folder = await folderOf(context);
  const one = await spool(folder);
  await one.append(lines("1", "2"));
  await one.drop(lines("1"));
  await one.drop(lines("2"));
  await one.close();
  const two = await spool(folder);
  await two.append(lines("3", "4"));
  await two.close();
  const three = await spool(folder);
  assert.deepEqual(await first(three, 10), ["3", "4"]);
  await three.close();
});

test("half a line whose append never resolved is passed over", async (context) => {
  const folder = await folderOf(context);
  const one = await spool(folder);
  await one.append(lines("1", "2"));
  await one.close();
  await appendFile((await segments(folder))[0]!, '{"half');
  const two = await spool(folder);
  await two.append(lines("3"));
  assert.deepEqual([two.count, await first(two, 10)], [3, ["1", "2"]]);
  await two.drop(lines("1", "2"));
  assert.deepEqual(await first(two, 10), ["3"]);
  await two.close();
});

test("half a line alone is no segment", async (context) => {
  const folder = await folderOf(context);
  await writeFile(join(folder, "000000000007.ndjson"), '{"half');
  const opened = await spool(folder);
  assert.deepEqual([opened.count, opened.size, await segments(folder)], [0, 0, []]);
  await opened.close();
});

test("segments are deleted as they are acknowledged", async (context) => {
  const folder = await folderOf(context);
  const opened = await spool(folder, { maxBytes: 4 * SMALLEST_SEGMENT_BYTES });
  const line = "x".repeat(1023);
  for (let n = 0; n < 64; n += 1) await opened.append(lines(line, line, line, line));
  assert.equal((await segments(folder)).length, 4);
  for (let batch = await first(opened, 10); batch.length > 0; batch = await first(opened, 10)) {
    await opened.drop(lines(...batch));
    const sizes = await Promise.all((await segments(folder)).map(async (path) => (await stat(path)).size));
    const kept = sizes.reduce((sum, size) => sum + size, 0);
    assert.equal(kept, opened.size);
    assert.ok(kept <= opened.count * 1024 + SMALLEST_SEGMENT_BYTES);
  }
  assert.deepEqual(await segments(folder), []);
  await opened.close();
});

test("a line of more than a block is read whole", async (context) => {
  const opened = await spool(await folderOf(context));
  const long = "x".repeat(3 << 20);
  await opened.append(lines(long, "1"));
  assert.deepEqual((await first(opened, 10, 1000)).map((line) => line.length), [long.length]);
  await opened.close();
});

test("a segment of many blocks is counted whole when it is opened again", async (context) => {
  const folder = await folderOf(context);
  const one = await spool(folder);
  await one.append(Array.from({ length: 3 }, () => lines("x".repeat(1 << 20))[0]!));
  await one.drop((await one.first(1, 1)).slice(0, 1));
  await one.close();
  const two = await spool(folder);
  assert.equal(two.count, 2);
  await two.close();
});

test("what was refused is kept up to a limit", async (context) => {
  const folder = await folderOf(context);
  const opened = await spool(folder, { rejectedBytes: 10 });
  assert.equal(await opened.keepRejected(lines("12345")[0]!), true);
  assert.equal(await opened.keepRejected(lines("678901")[0]!), false);
  await opened.close();
  assert.equal(await readFile(join(folder, "rejected"), "utf8"), "12345\n");
});
