/** What must not compile: the types of calls are those of the server. Nothing runs this. */

import { get } from "../src/calls.ts";
import type { Memory, Mnemolog, RecallResult } from "../src/index.ts";

export async function refused(memory: Mnemolog): Promise<void> {
  // @ts-expect-error a field that the server does not take
  await memory.memories.create("tea", { tagz: ["drinks"] });
  // @ts-expect-error a value that the server does not take
  await memory.memories.create("tea", { visibility: "nobody" });
  // @ts-expect-error what a call says by itself
  await memory.observations.create("s1", "tea", { session_id: "s2" });
  // @ts-expect-error a command without a type
  await memory.batch([{ content: "tea" }]);
  // @ts-expect-error an option of another listing
  memory.memories.list("shop", { retired: true });
  // @ts-expect-error the number of items on a page is `pageSize`
  memory.memories.list("shop", { limit: 3 });
  // @ts-expect-error an option of another listing, with the project as an option
  memory.memories.list({ project: "shop", retired: true });
  // @ts-expect-error the project twice
  memory.memories.list("shop", { project: "shop" });
  // @ts-expect-error no route
  get("/v1/nothing", "id");
  // @ts-expect-error a route without its name
  get("/v1/memories/{id}", "content", { names: {} });
  // @ts-expect-error a field that an answer does not have
  get("/v1/memories/{id}", "contents", { names: { id: "x" } });
}

export async function taken(memory: Mnemolog): Promise<[Memory, RecallResult | undefined, number | null | undefined]> {
  const at = { occurred_at: new Date(), project: undefined, tags: ["drinks"] as readonly string[] };
  const { id } = await memory.memories.create("tea", at);
  const [found] = await memory.search("tea", { since: new Date(), until: "2026-01-31T12:00:00Z" });
  return [await memory.memories.get(id), found, found?.confidence];
}
