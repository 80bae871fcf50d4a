/** The emitter against a stub: when a batch is sent, what happens to it, and what becomes of what is left. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { test } from "node:test";

import { EmitterClosed, EmitterFull, NotDelivered, SpoolInUse, TooLarge, Unauthorized } from "../src/index.ts";
import type { BatchAccepted, Emitter, EmitterOptions, Mnemolog } from "../src/index.ts";
import { Outbox } from "../src/outbox.ts";
import { InMemory } from "../src/waiting.ts";
import type { Answer } from "./stub.ts";
import { batchAnswer, commandsOf, CUT, refused, Stub } from "./stub.ts";
import { clientOf, folderOf, NEVER_S, stubOf, until } from "./support.ts";

const LIBRARY = new URL("../src/index.js", import.meta.url).href;
const SETTLED = { waiting: 0, duplicates: 0, rejected: 0, trouble: undefined };

interface Scene {
  readonly stub: Stub;
  readonly client: Mnemolog;
  /** An emitter that is closed with the test, whatever is left. */
  readonly emitter: (options?: EmitterOptions, folder?: string) => Promise<Emitter>;
  readonly log: string[];
}

/** A client of a stub that accepts all. */
async function scene(context: TestContext): Promise<Scene> {
  const stub = await Stub.start();
  stub.otherwise = batchAnswer;
  const client = clientOf(stub);
  const log: string[] = [];
  const opened: Emitter[] = [];
  context.after(async () => {
    for (const one of opened) await one.close({ timeoutS: 0 }).catch(() => undefined);
    await stub.stop();
  });
  const emitter = async (options: EmitterOptions = {}, folder?: string): Promise<Emitter> => {
    const made = await client.emitter(folder, { log: (message) => log.push(message), ...options });
    opened.push(made);
    return made;
  };
  return { stub, client, emitter, log };
}

/** What each batch said. */
function contents(stub: Stub): unknown[][] {
  return stub.received.map((one) => commandsOf(one).map((command) => command["content"]));
}

function numbers(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, n) => String(from + n));
}

/** How many commands are in the files of a spool. */
async function spooled(folder: string): Promise<number> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".ndjson"));
  const files = await Promise.all(names.map((name) => readFile(join(folder, name), "utf8")));
  return files.join("").split("\n").length - 1;
}

/** The stub answers nothing until this is called. */
function hold(stub: Stub): () => void {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  stub.otherwise = async (received) => {
    await held;
    return batchAnswer(received);
  };
  return release;
}

test("a full batch is sent at once", async (context) => {
  const { stub, emitter } = await scene(context);
  const made = await emitter({ batchEvents: 2, flushEveryS: NEVER_S });
  for (const n of numbers(0, 5)) await made.observe("s1", n);
  await until(() => made.stats.accepted === 4);
  assert.equal(made.stats.waiting, 1);
  await made.close();
  assert.deepEqual(contents(stub).flat(), numbers(0, 5));
});

test("what waits is sent when its time has come", async (context) => {
  const { emitter } = await scene(context);
  const made = await emitter({ flushEveryS: 0.01 });
  await made.observe("s1", "tea");
  await until(() => made.stats.accepted === 1);
});

for (const where of ["memory", "spool"]) {
  test(`a flush sends at once and resolves when all is settled: ${where}`, async (context) => {
    const { stub, client, emitter } = await scene(context);
    stub.otherwise = (received) => batchAnswer(received, { bad: "invalid" }, "3:7-0");
    const made = await emitter({ flushEveryS: NEVER_S }, where === "spool" ? await folderOf(context) : undefined);
    const emitted = ["good", "bad", "good too"].map((one) => made.observe("s1", one, { project: "shop" }));
    await made.flush();
    assert.deepEqual(made.stats, { ...SETTLED, accepted: 2, rejected: 1 });
    const [sent] = stub.received;
    assert.equal(sent?.headers["content-type"], "application/x-ndjson");
    const commands = commandsOf(sent);
    assert.deepEqual(commands.map((one) => one["event_id"]), await Promise.all(emitted));
    assert.deepEqual(new Set(commands.map((one) => one["agent_id"])), new Set(["ada"]));
    assert.ok(commands.every((one) => one["occurred_at"]));
    assert.equal(client.position, "3:7-0");
  });
}

const FAULTS: Record<string, Answer> = {
  cut: CUT,
  "429": refused(429, "overloaded", "0"),
  "503": refused(503, "log_unavailable", "0"),
  "502": { body: Buffer.from("?"), status: 502 },
  unreadable: { body: Buffer.from("?"), status: 202 },
  "500": refused(500, "internal"),
  "401": refused(401, "unauthorized"),
  "422": refused(422, "durability_unavailable"),
};

for (const [name, fault] of Object.entries(FAULTS)) {
  test(`a batch that was not taken is sent again unchanged: ${name}`, async (context) => {
    const { stub, emitter } = await scene(context);
    stub.answers.push(fault, fault);
    const made = await emitter({ batchEvents: 3, flushEveryS: NEVER_S });
    for (const n of numbers(0, 3)) await made.observe("s1", n);
    await made.flush();
    assert.deepEqual(made.stats, { ...SETTLED, accepted: 3 });
    assert.equal(new Set(stub.received.map((one) => one.content)).size, 1);
    assert.equal(stub.received.length, 3);
  });
}

test("trouble is told while it lasts", async (context) => {
  const { stub, emitter, log } = await scene(context);
  stub.otherwise = refused(401, "unauthorized");
  const made = await emitter({ flushEveryS: NEVER_S });
  await made.observe("s1", "tea");
  await assert.rejects(made.flush({ timeoutS: 0 }), NotDelivered);
  await until(() => stub.received.length > 2);
  await assert.rejects(made.flush({ timeoutS: 0 }), (error: NotDelivered) => {
    assert.equal(error.left, 1);
    assert.ok(error.trouble instanceof Unauthorized);
    return true;
  });
  assert.ok(made.stats.trouble instanceof Unauthorized);
  assert.deepEqual(log, ["1 commands wait: unauthorized: because of unauthorized"]);
  await assert.rejects(made.close({ timeoutS: 0 }), NotDelivered);
});

test("a full emitter refuses and has not taken it", async (context) => {
  const { stub, emitter } = await scene(context);
  const release = hold(stub);
  const made = await emitter({ maxEvents: 2, batchEvents: 1 });
  const taken = [made.observe("s1", "0"), made.observe("s1", "1")];
  await assert.rejects(made.observe("s1", "2"), EmitterFull);
  await Promise.all(taken);
  await assert.rejects(made.observe("s1", "2"), EmitterFull);
  release();
  await made.flush();
  await made.observe("s1", "3");
  await made.close();
  assert.deepEqual(contents(stub).flat(), ["0", "1", "3"]);
});

for (const where of ["memory", "spool"]) {
  test(`a full emitter that blocks goes on when there is room: ${where}`, async (context) => {
    const { stub, emitter } = await scene(context);
    const folder = where === "spool" ? await folderOf(context) : undefined;
    const made = await emitter({ maxEvents: 2, flushEveryS: NEVER_S, whenFull: "block" }, folder);
    for (const n of numbers(0, 20)) await made.observe("s1", n);
    await made.close();
    assert.deepEqual(contents(stub).flat(), numbers(0, 20));
  });
}

test("what could never fit is refused also by an emitter that blocks", async (context) => {
  const { emitter } = await scene(context);
  const made = await emitter({ maxBytes: 100, whenFull: "block" });
  await assert.rejects(made.observe("s1", "x".repeat(200)), EmitterFull);
});

test("an event that is too large for any batch is refused", async (context) => {
  const { emitter } = await scene(context);
  const made = await emitter();
  await assert.rejects(made.observe("s1", "x".repeat(9 << 20)), TooLarge);
});

for (const code of ["too_large", "malformed"]) {
  test(`a batch that one command spoils is split until that one is alone: ${code}`, async (context) => {
    const { stub, emitter } = await scene(context);
    const folder = await folderOf(context);
    stub.otherwise = (received) => {
      const spoilt = commandsOf(received).some(({ content }) => content === "5");
      return spoilt ? refused(code === "too_large" ? 413 : 400, code) : batchAnswer(received);
    };
    const told: unknown[] = [];
    const onRejected: EmitterOptions["onRejected"] = (command, rejection) => {
      told.push([command.type === "observe" && command.content, rejection.code]);
    };
    const made = await emitter({ flushEveryS: NEVER_S, onRejected }, folder);
    for (const n of numbers(0, 9)) await made.observe("s1", n);
    await made.flush();
    assert.deepEqual([made.stats.accepted, made.stats.rejected], [8, 1]);
    await made.close();
    assert.deepEqual(told, [["5", code]]);
    const kept: unknown = JSON.parse(await readFile(join(folder, "rejected"), "utf8"));
    const { rejection, command } = kept as { rejection: { code: string }; command: { content: string } };
    assert.deepEqual([rejection.code, command.content], [code, "5"]);
  });
}

test("a callback that fails stops nothing", async (context) => {
  const { stub, emitter, log } = await scene(context);
  stub.otherwise = (received) => batchAnswer(received, { bad: "invalid" });
  const onRejected = async (): Promise<void> => {
    throw new Error("of the callback");
  };
  const made = await emitter({ onRejected });
  await made.observe("s1", "bad");
  await made.flush();
  await made.observe("s1", "good");
  await made.flush();
  assert.deepEqual([made.stats.accepted, made.stats.rejected], [1, 1]);
  assert.ok(log.includes("onRejected failed: Error: of the callback"));
});

test("a log that fails stops nothing", async (context) => {
  const { stub, emitter } = await scene(context);
  const told = context.mock.method(console, "error", () => undefined);
  stub.answers.push(refused(503, "unavailable"));
  const log = (): void => {
    throw new Error("of the log");
  };
  const made = await emitter({ log });
  await made.observe("s1", "tea");
  await made.flush();
  assert.match(String(told.mock.calls[0]?.arguments[0]), /1 commands wait: .*of the log/);
});

test("an answer that does not say what was rejected takes nothing out of the queue", async (context) => {
  const { stub, emitter, log } = await scene(context);
  stub.answers.push({ body: { accepted: 1, position: "0:1-0" } });
  const made = await emitter();
  await made.observe("s1", "tea");
  await made.flush();
  assert.equal(stub.received[0]?.content, stub.received[1]?.content);
  assert.deepEqual(made.stats, { ...SETTLED, accepted: 1 });
  assert.match(log.join(), /unreadable_answer/);
});

test("closing without an end to it sends all", async (context) => {
  const { stub, emitter } = await scene(context);
  const release = hold(stub);
  const made = await emitter();
  await made.observe("s1", "tea");
  const closed = made.close({ timeoutS: Number.POSITIVE_INFINITY });
  await until(() => stub.received.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 50)); // a timer of that length goes off after a millisecond
  release();
  await closed;
  assert.equal(made.stats.accepted, 1);
});

test("what is left stays in the spool and is sent first by the next", async (context) => {
  const { stub: cutting, emitter } = await scene(context);
  const { stub, emitter: later } = await scene(context); // a request that was cut off may still reach the first
  const folder = await folderOf(context);
  cutting.otherwise = CUT;
  const first = await emitter({ batchEvents: 2 }, folder);
  const ids: string[] = [];
  for (const n of numbers(0, 5)) ids.push(await first.observe("s1", n));
  await first.close({ timeoutS: 0.2 });
  await assert.rejects(first.observe("s1", "late"), EmitterClosed);
  const second = await later({ flushEveryS: NEVER_S }, folder);
  await second.observe("s1", "5");
  await second.flush();
  assert.deepEqual(contents(stub).flat(), numbers(0, 6));
  assert.deepEqual(stub.received.flatMap(commandsOf).map((one) => one["event_id"]).slice(0, 5), ids);
});

test("what an earlier process left goes without being asked for", async (context) => {
  const { stub, emitter } = await scene(context);
  const folder = await folderOf(context);
  stub.otherwise = CUT;
  const first = await emitter({}, folder);
  await first.observe("s1", "left");
  await first.close({ timeoutS: 0 });
  stub.otherwise = batchAnswer;
  const second = await emitter({ flushEveryS: NEVER_S }, folder);
  await until(() => second.stats.accepted === 1);
});

test("a folder belongs to one emitter", async (context) => {
  const { emitter } = await scene(context);
  const folder = await folderOf(context);
  const first = await emitter({}, folder);
  await assert.rejects(emitter({}, folder), SpoolInUse);
  await first.close();
  await (await emitter({}, folder)).close();
});

test("a folder belongs to one process, until that is killed", async (context) => {
  const { stub, emitter } = await scene(context);
  const folder = await folderOf(context);
  const child = node(HOLDING, stub.url, folder);
  await once(child.stdout, "data");
  await assert.rejects(emitter({}, folder), SpoolInUse);
  child.kill("SIGKILL");
  await once(child, "exit");
  const made = await emitter({}, folder);
  await made.flush();
  assert.equal(made.stats.accepted, 1);
});

test("without a spool what is left is told", async (context) => {
  const { stub, emitter } = await scene(context);
  stub.otherwise = CUT;
  const made = await emitter();
  await made.observe("s1", "tea");
  await assert.rejects(made.close({ timeoutS: 0.1 }), (error: NotDelivered) => error.left === 1);
});

test("a client that is closed first loses nothing", async (context) => {
  const { client, emitter } = await scene(context);
  const folder = await folderOf(context);
  const made = await emitter({ flushEveryS: NEVER_S }, folder);
  await made.observe("s1", "tea");
  await client.close();
  await assert.rejects(made.flush({ timeoutS: 0 }), NotDelivered);
  await until(() => String(made.stats.trouble).includes("closed"));
  await made.close({ timeoutS: 0 });
  assert.equal(await spooled(folder), 1);
});

test("a batch that is answered after the emitter gave up touches nothing", async (context) => {
  const { stub, emitter } = await scene(context);
  const folder = await folderOf(context);
  const release = hold(stub);
  const first = await emitter({ batchEvents: 1 }, folder);
  await first.observe("s1", "0");
  await until(() => stub.received.length === 1);
  await first.close({ timeoutS: 0 });
  release();
  assert.equal(await spooled(folder), 1);
  const second = await emitter({}, folder);
  await second.flush();
  assert.equal(stub.received[0]?.content, stub.received[1]?.content);
  assert.equal(await spooled(folder), 0);
});

test("what is emitted while the emitter is closed is sent or refused, not lost", async (context) => {
  const { stub, emitter } = await scene(context);
  const made = await emitter({ flushEveryS: NEVER_S }, await folderOf(context));
  const emitted = numbers(0, 100).map((n) => made.observe("s1", n));
  const closed = made.close();
  await assert.rejects(made.observe("s1", "late"), EmitterClosed);
  await Promise.all([...emitted, closed, made.close()]);
  assert.deepEqual(contents(stub).flat(), numbers(0, 100));
});

test("leaving the block closes an emitter", async (context) => {
  const { stub, emitter } = await scene(context);
  {
    await using made = await emitter({ flushEveryS: NEVER_S });
    await made.observe("s1", "tea");
  }
  assert.deepEqual(contents(stub), [["tea"]]);
});

// processes

const OPENED = `
import { Mnemolog } from ${JSON.stringify(LIBRARY)};
const [url, folder] = process.argv.slice(1);
const emitter = await new Mnemolog({ url }).emitter(folder, { flushEveryS: 3600, log() {} });
`;
const HOLDING = `${OPENED}
console.log(await emitter.observe("s1", "tea"));
setInterval(() => {}, 1000);
`;
const EMITTING = `${OPENED}
for (let n = 0; n < 1e6; n += 1) process.stdout.write(await emitter.observe("s1", String(n)) + "\\n");
`;
const FLUSHING = `${OPENED}
await emitter.observe("s1", "tea");
await emitter.flush();
console.log("flushed");
`;
const UNCLOSED = `${OPENED}
void emitter.observe("s1", "tea");
`;

/** A process that runs a text. */
function node(program: string, ...args: string[]) {
  return spawn(process.execPath, ["--input-type=module", "-e", program, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}

test("all that was emitted survives the process", async (context) => {
  const { stub, emitter } = await scene(context);
  const folder = await folderOf(context);
  const child = node(EMITTING, "http://127.0.0.1:1", folder);
  let said = "";
  for await (const chunk of child.stdout) {
    said += String(chunk);
    if (said.split("\n").length > 2_000) child.kill("SIGKILL");
  }
  const emitted = said.split("\n").slice(0, -1);
  const made = await emitter({}, folder);
  await made.flush();
  const sent = stub.received.flatMap(commandsOf);
  const ids = sent.map((one) => one["event_id"]);
  assert.deepEqual(ids.slice(0, emitted.length), emitted);
  assert.ok(emitted.length >= 2_000);
  assert.deepEqual(sent.map((one) => one["content"]), numbers(0, sent.length));
});

test("an emitter that nobody closed is closed when the process ends", async (context) => {
  const { stub } = await scene(context);
  const child = node(UNCLOSED, stub.url);
  await text(child.stdout);
  await until(() => child.exitCode !== null);
  assert.equal(child.exitCode, 0);
  assert.deepEqual(contents(stub), [["tea"]]);
});

test("an outbox says when a batch is due", async () => {
  const outbox = new Outbox(new InMemory(), "ada", { flushEveryS: NEVER_S, batchEvents: 2 });
  assert.equal(outbox.dueInMs(), Number.POSITIVE_INFINITY);
  for (const due of [(ms: number) => ms > 0 && ms <= NEVER_S * 1000, (ms: number) => ms === 0]) {
    const [, line] = outbox.encode({ type: "observe", content: "tea" });
    outbox.reserve(line);
    await outbox.put([line], line.length + 1);
    assert.ok(due(outbox.dueInMs()));
  }
});

test("a flush that begins in the middle of a settlement waits for what was emitted last", async () => {
  const queue = new InMemory();
  const outbox = new Outbox(queue, "ada", { flushEveryS: NEVER_S });
  for (const n of numbers(0, 2)) {
    const [, line] = outbox.encode({ type: "observe", content: n });
    outbox.reserve(line);
    await outbox.put([line], line.length + 1);
  }
  let deleted = (): void => undefined;
  const drop = queue.drop.bind(queue);
  queue.drop = async (lines) => {
    await drop(lines);
    await new Promise<void>((resolve) => (deleted = resolve)); // as a spool, while it deletes the file
  };
  const answer: BatchAccepted = { accepted: 1, duplicates: 0, rejected: [], position: "0:1-0", durability: "fsync" };
  const settled = outbox.settle(await queue.first(1, 1), answer);
  await until(() => queue.count === 1);
  const number = outbox.wantAll();
  deleted();
  await settled;
  assert.equal(outbox.isSettled(number), false);
  assert.equal(outbox.waiting, 1);
});

test("a process that waits for a flush does not end before", async (context) => {
  const stub = await stubOf(context);
  stub.answers.push(CUT, CUT, CUT);
  stub.otherwise = batchAnswer;
  const child = node(FLUSHING, stub.url);
  assert.equal(await text(child.stdout), "flushed\n");
});
