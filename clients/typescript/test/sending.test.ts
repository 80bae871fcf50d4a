/** One call over a real connection: what is sent, what is repeated, and what it rejects with. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as client from "../src/index.ts";
import {
  InvalidRequest, Mnemolog, MnemologError, NotFound, Overloaded, ProjectionBehind, Retry, ServerFault, Unavailable,
  Unreachable,
} from "../src/index.ts";
import type { Answer } from "./stub.ts";
import { accepted, bodyOf, CUT, refused, Stub } from "./stub.ts";
import { all, clientOf, NEVER_S, stubOf, until } from "./support.ts";

const ATTEMPTS = 4;
const RECALLED = { body: { results: [], took_ms: 1, lag: {}, degraded: [], confidence: null } };

function receipt(number: number, status = "done"): Record<string, unknown> {
  return { id: String(number), kind: "user", subject: "u", requested_at: "2026-01-31T12:00:00Z", status };
}

/** The error that a call rejects with, which is of a class. */
async function rejected<E extends MnemologError>(
  call: Promise<unknown>,
  kind: new (...args: never[]) => E,
): Promise<E> {
  const fault: unknown = await call.then(() => undefined, (error: unknown) => error);
  assert.ok(fault instanceof kind, `${String(fault)} is no ${kind.name}`);
  return fault;
}

test("a write says who speaks and is decoded", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push(accepted("0:1-0", { what_a_later_release_adds: 1 }));
  const occurred = new Date("2026-01-31T12:00:00Z");
  const fields = { project: "shop", tags: ["drinks"], importance: undefined, occurred_at: occurred };
  const kept = await clientOf(stub).memories.create("tea", fields);
  const [sent] = stub.received;
  assert.deepEqual([sent?.method, sent?.path], ["POST", "/v1/memories"]);
  assert.equal(sent?.headers.authorization, "Bearer the-key");
  assert.equal(sent.headers["x-agent-id"], "ada");
  const { event_id: eventId, ...said } = bodyOf(sent);
  assert.match(String(eventId), /^[0-9a-f]{32}$/);
  assert.deepEqual(said, {
    content: "tea", project: "shop", tags: ["drinks"], occurred_at: "2026-01-31T12:00:00.000Z",
  });
  assert.equal(kept.id, "mem_1");
});

test("an agent's name that is not ASCII is sent as UTF-8", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push(accepted("0:1-0"));
  for (const agent of ["小王", "Zoë à", "100%25"]) {
    stub.answers.push(accepted("0:1-0"));
    await clientOf(stub, { agent }).memories.create("tea");
    const sent = stub.received.at(-1)?.headers["x-agent-id"];
    assert.equal(Buffer.from(String(sent), "latin1").toString("utf8"), agent);
  }
});

test("names with slashes stay one part of the path", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = refused(404, "not_found");
  await rejected(clientOf(stub).sessions.get("2026/01?x"), NotFound);
  assert.equal(stub.received[0]?.path, "/v1/sessions/2026%2F01%3Fx");
});

const AGAIN: Record<string, Answer> = {
  "429": refused(429, "overloaded", "0"),
  "503": refused(503, "log_unavailable", "0"),
  "durability not reached": refused(503, "durability_not_reached"),
  "a proxy without a server": { body: Buffer.from("<html>"), status: 502 },
  "connection cut": CUT,
};

for (const [name, fault] of Object.entries(AGAIN)) {
  test(`a write is repeated with the same event id: ${name}`, async (context) => {
    const stub = await stubOf(context);
    stub.answers.push(fault, fault, accepted());
    await clientOf(stub).memories.create("tea");
    assert.equal(stub.received.length, 3);
    assert.equal(new Set(stub.received.map((one) => one.content)).size, 1);
    assert.ok(bodyOf(stub.received[0])["event_id"]);
  });
}

test("a change that is not decided in time is repeated with its event id", async (context) => {
  const stub = await stubOf(context);
  const applied = { ...accepted("0:1-0", { version: 4 }), status: 200 };
  stub.answers.push(refused(503, "projection_behind", "0"), applied);
  const changes = { priority: 5, expected_version: 3 };
  assert.equal((await clientOf(stub).actions.update("act_1", changes)).version, 4);
  const [first, again] = stub.received;
  assert.equal(first?.content, again?.content);
});

test("an empty queue is no claim and another absence is an error", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push(refused(404, "nothing_to_claim"), refused(404, "not_found"));
  assert.equal(await clientOf(stub).actions.claimNext("shop"), undefined);
  await rejected(clientOf(stub).actions.claimNext("shop"), NotFound);
});

test("two writes have two event ids and a given one is kept", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = accepted();
  const memory = clientOf(stub);
  await memory.add("tea");
  await memory.add("tea");
  await memory.lessons.reinforce("lsn_1", { event_id: "mine" });
  const [first, second, third] = stub.received;
  assert.notEqual(bodyOf(first)["event_id"], bodyOf(second)["event_id"]);
  assert.deepEqual(third?.query, { event_id: "mine" });
});

test("repeating ends after so many attempts", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = refused(429, "overloaded", "0", { reason: "lag" });
  const error = await rejected(clientOf(stub).add("tea"), Overloaded);
  assert.equal(stub.received.length, ATTEMPTS);
  assert.equal(error.reason, "lag");
});

test("a server that names a longer time than there is patience is not waited for", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = refused(429, "overloaded", "61");
  const error = await rejected(clientOf(stub).add("tea"), Overloaded);
  assert.equal(stub.received.length, 1);
  assert.equal(error.retryAfterS, 61);
});

test("repeating ends when there is no patience left", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = refused(503, "log_unavailable", "0.02");
  await rejected(clientOf(stub, { retry: { attempts: 100, patienceS: 0.05 } }).add("tea"), Unavailable);
  assert.equal(stub.received.length, 3);
});

test("nobody listening is unreachable and certainly not done", async () => {
  const stub = await Stub.start();
  const memory = clientOf(stub);
  await stub.stop();
  const error = await rejected(memory.add("tea"), Unreachable);
  assert.equal(error.outcomeUnknown, false);
  assert.match(error.message, /ECONNREFUSED/);
});

test("an answer that does not come in time is unreachable, and the outcome unknown", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = () => new Promise<Answer>(() => undefined);
  const memory = clientOf(stub, { timeoutS: 0.01, retry: { attempts: 2, firstPauseS: 0 } });
  const error = await rejected(memory.add("tea"), Unreachable);
  assert.equal(error.outcomeUnknown, true);
  assert.match(error.message, /no answer within 0.01 s/);
});

test("a refusal after a lost attempt says that it may be our own doing", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push(CUT, refused(404, "not_found"), refused(404, "not_found"));
  const lost = await rejected(clientOf(stub).memories.delete("mem_1"), NotFound);
  const plain = await rejected(clientOf(stub).memories.delete("mem_1"), NotFound);
  assert.ok(lost.afterLostAttempt);
  assert.match(String(lost), /may have succeeded/);
  assert.ok(!plain.afterLostAttempt);
});

const REFUSALS: [number, string, keyof typeof client][] = [
  [400, "malformed", "InvalidRequest"],
  [401, "unauthorized", "Unauthorized"],
  [403, "forbidden", "Forbidden"],
  [404, "not_found", "NotFound"],
  [405, "method_not_allowed", "InvalidRequest"],
  [409, "already_there", "Conflict"],
  [413, "slot_full", "TooLarge"],
  [422, "invalid", "InvalidRequest"],
  [500, "internal", "ServerFault"],
];

for (const [status, code, kind] of REFUSALS) {
  test(`a refusal rejects at once with what the caller can do: ${code}`, async (context) => {
    const stub = await stubOf(context);
    stub.otherwise = refused(status, code, "", { field: "limit" });
    const error = await rejected(clientOf(stub).recall("tea"), MnemologError);
    assert.equal(error.constructor, client[kind]);
    assert.equal(error.name, kind);
    assert.deepEqual([error.code, error.field, error.status], [code, "limit", status]);
    assert.equal(error.message, `because of ${code}`);
    assert.equal(stub.received.length, 1);
  });
}

for (const body of ["<html>", "[]", "\xff", '{"error": 1}', "null"]) {
  test(`an answer that is none of ours is a fault of the server: ${body}`, async (context) => {
    const stub = await stubOf(context);
    const content = Buffer.from(body, "latin1");
    stub.answers.push({ body: content, status: 500 }, { body: content, status: 200 });
    for (let n = 0; n < 2; n += 1) {
      const error = await rejected(clientOf(stub).recall("tea"), ServerFault);
      assert.equal(error.code, "unreadable_answer");
    }
  });
}

test("a write whose answer has no position is a fault of the server", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push({ body: { id: "mem_1" }, status: 202 }, accepted("nonsense"));
  await rejected(clientOf(stub).add("tea"), ServerFault);
  await rejected(clientOf(stub).add("tea"), ServerFault);
});

test("a redirection is not followed", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = { status: 302, headers: { Location: stub.url } };
  await rejected(clientOf(stub).add("tea"), ServerFault);
  assert.equal(stub.received.length, 1);
});

test("reads wait for what the client wrote", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push(accepted("1:5-0"), accepted("0:7-1"), RECALLED, { body: { items: [], next: null } });
  const memory = clientOf(stub);
  await memory.add("tea");
  await memory.lessons.create("taste it");
  await memory.recall("tea");
  assert.deepEqual(await all(memory.memories.list("shop")), []);
  assert.deepEqual(
    stub.received.slice(0, 3).map((one) => bodyOf(one)["after"]),
    [undefined, undefined, "0:7-1,1:5-0"],
  );
  assert.deepEqual(stub.received[3]?.query, { project: "shop", after: "0:7-1,1:5-0" });
});

test("a position is handed to another client", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = RECALLED;
  const first = clientOf(stub, { position: "1:5-0" });
  const second = clientOf(stub);
  second.advance(first.position);
  second.advance("2:1-0");
  await second.recall("tea");
  assert.equal(bodyOf(stub.received[0])["after"], "1:5-0,2:1-0");
});

test("projections that are behind are asked again and then told", async (context) => {
  const stub = await stubOf(context);
  const behind = refused(503, "projection_behind", "0", { lag: { 3: 12 } });
  stub.answers.push(behind, RECALLED);
  stub.otherwise = behind;
  await clientOf(stub).recall("tea");
  const error = await rejected(clientOf(stub).recall("tea"), ProjectionBehind);
  assert.deepEqual(error.lag, { 3: 12 });
});

test("pages are asked for as they are needed", async (context) => {
  const stub = await stubOf(context);
  const page = (start: number, next: string | null): Answer => ({
    body: { items: [receipt(start), receipt(start + 1)], next },
  });
  stub.answers.push(page(0, "c1"), page(2, null));
  const receipts = clientOf(stub).receipts.list({ pageSize: 2 });
  assert.equal((await receipts.next()).value?.id, "0");
  assert.equal((await receipts.next()).value?.id, "1");
  assert.equal(stub.received.length, 1);
  assert.deepEqual((await all(receipts)).map((one) => one.id), ["2", "3"]);
  assert.deepEqual(stub.received.map((one) => one.query), [{ limit: "2" }, { limit: "2", cursor: "c1" }]);
});

test("what an answer lacks is told before it is there", async (context) => {
  const stub = await stubOf(context);
  const leftOut = "left out: partitions 3, 7, on an unreachable cluster node";
  const headers = { "Mnemolog-Degraded": leftOut };
  stub.answers.push({ body: { items: [], next: "c1" }, headers }, { body: { items: [], next: null } });
  stub.answers.push({ ...RECALLED, headers });
  const told: string[][] = [];
  const onDegraded = (...said: string[]): void => void told.push(said);
  assert.deepEqual(await all(clientOf(stub, { onDegraded }).sessions.list("shop")), []);
  assert.deepEqual(told, [["GET /v1/sessions", leftOut]]);
  assert.deepEqual((await clientOf(stub).recall("tea")).results, []);
});

test("the log is read to its head through empty pages", async (context) => {
  const stub = await stubOf(context);
  const page = (count: number, next: string): Answer => ({
    body: { events: Array.from({ length: count }, (_, n) => ({ position: `0:${n}-0` })), next },
  });
  stub.answers.push(page(1, "0:1-0"), page(0, "0:9-0"), page(1, "0:10-0"), page(0, "0:10-0"));
  const events = await all(clientOf(stub, { position: "0:99-0" }).events("", { project: "shop" }));
  assert.deepEqual(events.map((one) => one.position), ["0:0-0", "0:0-0"]);
  assert.deepEqual(stub.received.map((one) => one.query["after"]), [undefined, "0:1-0", "0:9-0", "0:10-0"]);
});

test("a receipt is waited for", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push({ body: receipt(1, "running") }, { body: receipt(1) });
  const memory = clientOf(stub);
  assert.equal((await memory.receipts.wait("1")).status, "done");
  stub.otherwise = { body: receipt(1, "pending") };
  const error = await rejected(memory.receipts.wait("1", { timeoutS: 0 }), Unavailable);
  assert.match(error.message, /was not done within 0 s/);
});

test("health is an answer also where it is bad", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push({ body: { status: "unavailable", code: "log_unavailable", reason: "away" }, status: 503 });
  assert.equal((await clientOf(stub).health()).reason, "away");
});

test("a client that was closed ends what is under way and sends nothing more", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = () => new Promise<Answer>(() => undefined);
  const memory = clientOf(stub, { retry: { attempts: 1 } });
  const underWay = rejected(memory.add("tea"), Unreachable);
  await new Promise((resolve) => setImmediate(resolve));
  await memory.close();
  assert.match((await underWay).message, /the client was closed/);
  const late = await rejected(memory.add("tea"), MnemologError);
  assert.equal(late.code, "client_closed");
});

test("a client that is closed ends its pauses", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = refused(429, "overloaded", String(NEVER_S));
  const memory = clientOf(stub, { retry: { patienceS: 2 * NEVER_S } });
  const pausing = rejected(memory.add("tea"), MnemologError);
  await until(() => stub.received.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 50)); // the answer is read, and the pause begins
  await memory.close();
  assert.equal((await pausing).code, "client_closed");
});

test("a timeout without end is none", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return RECALLED;
  };
  await clientOf(stub, { timeoutS: Number.POSITIVE_INFINITY, retry: { attempts: 1 } }).recall("tea");
});

test("pauses double up to the longest", () => {
  const retry = new Retry({ firstPauseS: 0.1, longestPauseS: 5 });
  const most = (_: number, longest: number): number => longest;
  assert.deepEqual([1, 2, 3, 7, 1000].map((failures) => retry.pauseS(failures, most)), [0.1, 0.2, 0.4, 5, 5]);
  assert.equal(retry.pauseS(1, (least) => least), 0.05);
});

for (const url of ["localhost:3111", "ftp://localhost", "http://"]) {
  test(`an address that is none is refused: ${url}`, () => {
    assert.throws(() => new Mnemolog({ url }), /is not an http/);
  });
}

for (const secret of ["the\nkey", "ключ"]) {
  test(`a secret that no header can hold is told at once: ${JSON.stringify(secret)}`, async (context) => {
    const stub = await stubOf(context);
    const error = await rejected(clientOf(stub, { secret }).recall("tea"), InvalidRequest);
    assert.match(error.message, /cannot be sent/);
    assert.deepEqual(stub.received, []);
  });
}

test("address and secret come from the environment", async (context) => {
  const stub = await stubOf(context);
  const before = { ...process.env };
  context.after(() => {
    process.env = before;
  });
  Object.assign(process.env, { MNEMOLOG_URL: stub.url, MNEMOLOG_SECRET: "old", MNEMOLOG_KEY: "of-the-environment" });
  stub.otherwise = RECALLED;
  await new Mnemolog().recall("tea");
  await new Mnemolog({ secret: "" }).recall("tea");
  assert.equal(stub.received[0]?.headers.authorization, "Bearer of-the-environment");
  assert.ok(!("authorization" in stub.received[1]!.headers));
});

test("a listing takes its project as an option or first", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = { body: { items: [], next: null } };
  const memory = clientOf(stub);
  await all(memory.memories.list({ project: "shop", latest: true, pageSize: 7 }));
  await all(memory.memories.list("shop", { latest: true, pageSize: 7 }));
  await all(memory.lessons.list({ project: "shop", retired: true }));
  await all(memory.observations.list({ project: "shop" }));
  await all(memory.actions.list({ project: "shop", open: true }));
  await all(memory.sessions.list({ project: "shop" }));
  await all(memory.agents({ project: "shop" }));
  await memory.slots.list({ project: "shop" });
  const queries = stub.received.map(({ query }) => query);
  assert.deepEqual(queries[0], { project: "shop", latest: "true", limit: "7" });
  assert.deepEqual(queries[1], queries[0]);
  assert.ok(queries.every((query) => query["project"] === "shop"));
  assert.deepEqual([queries[2]!["retired"], queries[4]!["open"]], ["true", "true"]);
});

test("without a project, listings of one ask for the nameless one, and others for all", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = { body: { items: [], next: null } };
  const memory = clientOf(stub);
  await all(memory.memories.list());
  await all(memory.memories.list({ latest: true }));
  await all(memory.sessions.list({}));
  assert.deepEqual(stub.received.map(({ query }) => query["project"]), ["", "", undefined]);
});

test("the log takes its beginning as an option or first", async (context) => {
  const stub = await stubOf(context);
  stub.otherwise = { body: { events: [], next: null } };
  await all(clientOf(stub).events({ after: "0:1-0", project: "shop" }));
  await all(clientOf(stub).events("0:1-0", { project: "shop" }));
  assert.deepEqual(stub.received.map(({ query }) => query), Array(2).fill({ after: "0:1-0", project: "shop" }));
});

test("an object for an id is a type error, not a request", async (context) => {
  const stub = await stubOf(context);
  const id = { id: "mem_1" } as unknown as string;
  assert.throws(() => clientOf(stub).memories.get(id), /\/v1\/memories\/\{id\} needs a text for id, not object/);
  assert.equal(stub.received.length, 0);
});

for (const [detail, field, message] of [
  ["Expected `int` >= 1", "limit", "limit must be at least 1"],
  ["Expected `str`, got `int`", "content", "content must be text"],
  ["Object missing required field `query`", "query", "query is missing"],
  ["name a slot", "label", "name a slot"],
] as const) {
  test(`what a decoder says of a field is worded for people: ${message}`, async (context) => {
    const stub = await stubOf(context);
    stub.otherwise = { body: { code: "invalid", detail, field, status: 422 }, status: 422 };
    assert.equal((await rejected(clientOf(stub).recall("tea"), InvalidRequest)).message, message);
  });
}

test("a value that has no form in JSON is an invalid request", async (context) => {
  const stub = await stubOf(context);
  const data = { n: 1n };
  const call = async (): Promise<unknown> => clientOf(stub).observations.create("s1", "", { data });
  assert.match((await rejected(call(), InvalidRequest)).message, /data: object/);
  assert.equal(stub.received.length, 0);
});

function stream(...blocks: string[]): Answer {
  const body = Buffer.from(blocks.map((block) => `${block}\n\n`).join(""));
  return { body, headers: { "Content-Type": "text/event-stream" } };
}

function block(number: number, content = "tea"): string {
  const event = { position: `0:${number}-0`, type: "memory.recorded", data: { content } };
  return `id: 0:${number}-0,1:9-0\nevent: memory.recorded\ndata: ${JSON.stringify(event)}`;
}

/** So many events of the stub's stream. */
async function live(stub: Stub, count: number): Promise<client.LiveEvent[]> {
  const events: client.LiveEvent[] = [];
  for await (const event of clientOf(stub).live({ project: "shop" })) {
    if (events.push(event) === count) break;
  }
  return events;
}

test("a stream that ends or is cut is continued behind its newest event", async (context) => {
  const stub = await stubOf(context);
  const unfinished = { body: Buffer.from(block(4)), headers: { "Content-Type": "text/event-stream" } };
  const odd = "lines \u2028 \u0085 and 🍵";
  stub.answers.push(stream(": connected\nid: 0:1-0,1:9-0"), stream(": still here", block(2), block(3, odd)));
  stub.answers.push(unfinished, CUT, refused(503, "log_unavailable", "0"), stream(block(4)));
  const events = await live(stub, 3);
  assert.deepEqual(events.map((event) => event.position), ["0:2-0", "0:3-0", "0:4-0"]);
  assert.deepEqual([events[1]?.data?.["content"], events[1]?.after], [odd, "0:3-0,1:9-0"]);
  const places = [undefined, "0:1-0,1:9-0", ...Array<string>(4).fill("0:3-0,1:9-0")];
  assert.deepEqual(stub.received.map(({ query }) => query["after"]), places);
});

for (const [name, answer, kind, requests] of [
  ["refused", refused(401, "unauthorized"), client.Unauthorized, 1],
  ["no stream", { body: { status: "ready" } }, ServerFault, 1],
  ["no event", stream("data: tea"), ServerFault, 1],
  ["cut", CUT, Unreachable, ATTEMPTS],
] as const) {
  test(`what cannot be followed is an error: ${name}`, async (context) => {
    const stub = await stubOf(context);
    stub.otherwise = answer;
    await rejected<MnemologError>(live(stub, 1), kind);
    assert.equal(stub.received.length, requests);
  });
}

test("a program may handle an event for longer than a stream may be silent", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let asked = 0;
  const streaming = async (_: unknown, options?: RequestInit): Promise<Response> => {
    asked += 1;
    const start = (body: ReadableStreamDefaultController): void => {
      options?.signal?.addEventListener("abort", () => body.error(options.signal?.reason));
      for (const number of [1, 2]) body.enqueue(Buffer.from(`${block(number)}\n\n`));
    };
    return new Response(new ReadableStream({ start }), { headers: { "Content-Type": "text/event-stream" } });
  };
  const events = new Mnemolog({ url: "http://127.0.0.1:1", fetch: streaming }).live()[Symbol.asyncIterator]();
  await events.next();
  context.mock.timers.tick(60_000);
  assert.deepEqual([(await events.next()).value?.position, asked], ["0:2-0", 1]);
  const third = events.next();
  for (; asked === 1; context.mock.timers.tick(60_000)) await new Promise(setImmediate); // silent: it is opened again
  assert.equal((await third).value?.position, "0:1-0");
});
