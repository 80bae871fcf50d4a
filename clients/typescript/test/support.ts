/** What several tests need. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { Mnemolog } from "../src/index.ts";
import type { MnemologOptions } from "../src/index.ts";
import { Stub } from "./stub.ts";

export const NEVER_S = 3600;
const WITHIN_MS = 30_000;

/** A stub that ends with its test. */
export async function stubOf(test: TestContext): Promise<Stub> {
  const stub = await Stub.start();
  test.after(() => stub.stop());
  return stub;
}

/** A client of a stub that is in a hurry. */
export function clientOf(stub: Stub, options: MnemologOptions = {}): Mnemolog {
  const retry = { attempts: 4, patienceS: 60, firstPauseS: 0.001, longestPauseS: 0.002 };
  return new Mnemolog({ url: stub.url, secret: "the-key", agent: "ada", retry, ...options });
}

/** A folder that ends with its test. */
export async function folderOf(test: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "mnemolog-test-"));
  test.after(() => rm(folder, { recursive: true }));
  return folder;
}

/** Wait until a condition holds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + WITHIN_MS;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${WITHIN_MS} ms: ${String(holds)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** All that is listed. */
export async function all<T>(listed: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const one of listed) items.push(one);
  return items;
}
