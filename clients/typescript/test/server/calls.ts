/** Prints every call of the client as the request that it makes, by name: a JSON object. */

import { Mnemolog } from "../../src/index.ts";
import * as nouns from "../../src/nouns.ts";

const { Root, ...CLASSES } = nouns;
/** Arguments of calls that take another thing than one text, or nothing. */
const ARGUMENTS: Record<string, unknown[]> = {
  batch: [[{ type: "remember", content: "tea" }]],
  confirm: [["mem_1"]],
  feedback: ["helped", ["mem_1"]],
  forget: ["user", "u"],
  "slots.set": ["notes", "tea"],
  "slots.append": ["notes", "tea"],
  "observations.create": ["s1", "tea"],
  "memories.revise": ["x", {}],
  "lessons.revise": ["x", {}],
  "actions.update": ["x", {}],
  "actions.renew": ["x", "0:1-0"],
  "actions.release": ["x", "0:1-0"],
  "actions.complete": ["x", "0:1-0"],
};
const NOTHING = new Set([
  "events", "frontier", "health", "lessons.surest", "live", "projects", "receipts.list", "sessions.list",
]);
const NOT_CALLS = new Set(["constructor", "advance"]);

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly query: Record<string, string>;
  readonly body: string | undefined;
}

let sent: Sent | undefined;
const client = new Mnemolog({
  url: "http://127.0.0.1:1",
  agent: "ada",
  position: "1:1-0",
  fetch: async (url, request) => {
    const { pathname, searchParams } = new URL(String(url));
    const body = request?.body instanceof Uint8Array ? new TextDecoder().decode(request.body) : request?.body;
    const query = Object.fromEntries(searchParams);
    sent = { method: request!.method!, path: pathname, query, body: body as string | undefined };
    return new Response("{}");
  },
});

/** The names of the methods that are calls. */
function calls(kind: { prototype: object }): string[] {
  const described = Object.entries(Object.getOwnPropertyDescriptors(kind.prototype));
  return described.flatMap(([name, { value }]) => (typeof value === "function" && !NOT_CALLS.has(name) ? [name] : []));
}

/** The request that a method makes first. */
async function requestOf(noun: object, name: string, args: unknown[]): Promise<Sent> {
  sent = undefined;
  const method = (noun as Record<string, (...args: unknown[]) => unknown>)[name]!;
  const made = method.apply(noun, args);
  const answered = made instanceof Promise ? made : (made as AsyncGenerator).next();
  await answered.catch(() => undefined); // an empty answer is none
  if (sent === undefined) throw new Error(`${name} sends nothing`);
  return sent;
}

const found: Record<string, Sent> = {};
const all: [string, object, { prototype: object }][] = [["", client, Root]];
for (const kind of Object.values(CLASSES)) {
  if (typeof kind !== "function" || kind.prototype === undefined) continue;
  const name = kind.name.toLowerCase();
  all.push([`${name}.`, client[name as "memories"], kind]);
}
for (const [prefix, noun, kind] of all) {
  for (const name of calls(kind)) {
    const full = prefix + name;
    const args = ARGUMENTS[full] ?? (NOTHING.has(full) ? [] : ["x"]);
    found[full] = await requestOf(noun, name, args);
  }
}
console.log(JSON.stringify(found));
