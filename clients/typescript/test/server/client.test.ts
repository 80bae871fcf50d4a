/** The client against a real server, MNEMOLOG_URL: what it wrote it reads. A project is one test's own. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  AlreadyClaimed, Conflict, InvalidRequest, Mnemolog, MnemologError, NotFound, Overloaded, StaleToken, Unauthorized,
  VersionConflict,
} from "../../src/index.ts";
import { newEventId } from "../../src/calls.ts";
import { all } from "../support.ts";

const PATIENT = { attempts: 100, patienceS: 60 };

function client(agent = "ada"): Mnemolog {
  return new Mnemolog({ agent, retry: PATIENT });
}

function ownProject(): string {
  return `project-${newEventId().slice(0, 12)}`;
}

test("what a client writes it reads at once", async () => {
  const memory = client();
  const project = ownProject();
  for (let n = 0; n < 20; n += 1) {
    const kept = await memory.memories.create(`${newEventId()} is the ${n}th secret word`, { project });
    assert.equal((await memory.memories.get(kept.id)).agent_id, "ada");
  }
  const kept = await memory.memories.create("tea is served at four", { project });
  assert.equal((await all(memory.memories.list(project, { pageSize: 7 }))).length, 21);
  const revised = await memory.memories.revise(kept.id, { content: "tea is served at five", tags: ["tea"] });
  assert.deepEqual((await memory.memories.history(kept.id)).map((one) => one.version), [1, 2]);
  assert.equal((await all(memory.memories.list(project, { latest: true }))).length, 21);
  assert.equal((await all(memory.memories.list({ project, latest: true, pageSize: 5 }))).length, 21);
  const [found] = await memory.search("when is tea served?", { project, kinds: ["memory"], explain: true });
  assert.equal(found?.id, revised.id);
  assert.ok(found.explain);
  assert.deepEqual((await memory.confirm([revised.id])).confirmed, [revised.id]);
  assert.deepEqual((await memory.feedback("helped", [revised.id])).judged, [revised.id]);
  await memory.memories.delete(revised.id, { reason: "asked to" });
  await assert.rejects(memory.memories.get(revised.id), NotFound);
});

test("a recall has bounds in time", async () => {
  const memory = client();
  const project = ownProject();
  const occurred = new Date("2026-01-31T12:00:00Z");
  await memory.observations.create("s1", "the tests are red", { project, occurred_at: occurred });
  const later = new Date("2026-02-01T00:00:00Z");
  assert.equal((await memory.recall("which tests are red?", { project, since: later })).results.length, 0);
  const { results } = await memory.recall("which tests are red?", { project, since: occurred, until: later });
  assert.equal(results[0]?.occurred_at, "2026-01-31T12:00:00Z");
});

test("another client reads what it was handed the position of", async () => {
  const project = ownProject();
  const [writer, reader] = [client(), client("bob")];
  await writer.observations.create("s1", "the tests are red", { project });
  reader.advance(writer.position);
  const seen = await all(reader.sessions.observations("s1", { project }));
  assert.deepEqual(seen.map((one) => one.content), ["the tests are red"]);
});

test("writes that are made at once are all read", async () => {
  const memory = client();
  const project = ownProject();
  const words = Array.from({ length: 10 }, (_, n) => `${newEventId()} is word ${n}`);
  await Promise.all(words.map((word) => memory.add(word, { project })));
  assert.equal((await all(memory.memories.list(project))).length, 10);
  assert.match((await memory.health()).status, /ready|degraded/);
});

test("observations", async () => {
  const memory = client();
  const project = ownProject();
  const data = { tool_name: "Bash", tool_input: { command: "make" } };
  const kept = await memory.observations.create("s1", "", { project, kind: "post_tool_use", data });
  assert.deepEqual((await memory.observations.get(kept.id)).data, data);
  assert.deepEqual((await all(memory.observations.list(project))).map((one) => one.id), [kept.id]);
  await memory.observations.delete(kept.id);
  await assert.rejects(memory.observations.get(kept.id), NotFound);
});

test("lessons", async () => {
  const memory = client();
  const project = ownProject();
  const said = { project, trigger_tool: "Bash", severity: "warning" } as const;
  const lesson = await memory.lessons.create("Pin the toolchain", said);
  await memory.lessons.reinforce(lesson.id);
  await memory.lessons.trigger(lesson.id);
  assert.deepEqual((await memory.lessons.match("Bash", { project })).map((one) => one.id), [lesson.id]);
  const kept = await memory.lessons.get(lesson.id);
  assert.deepEqual([kept.reinforcements, kept.trigger_count], [1, 1]);
  await memory.lessons.revise(lesson.id, { title: "Toolchain" });
  assert.deepEqual((await memory.lessons.surest({ project })).map((one) => one.title), ["Toolchain"]);
  assert.deepEqual((await memory.lessons.search("toolchain", { project })).map((one) => one.id), [lesson.id]);
  assert.deepEqual((await all(memory.lessons.list(project))).map((one) => one.id), [lesson.id]);
  await memory.lessons.delete(lesson.id, { reason: "wrong" });
  await assert.rejects(memory.lessons.get(lesson.id), NotFound);
});

test("slots", async () => {
  const memory = client();
  const project = ownProject();
  await memory.slots.set("notes", "be brief", { project });
  await memory.slots.append("notes", "be kind", { project });
  assert.equal((await memory.slots.get("notes", { project })).content, "be brief\nbe kind");
  await assert.rejects(memory.slots.set("notes", "be long", { project, overwrite: false }), Conflict);
  assert.ok((await memory.slots.list(project)).some((one) => one.label === "notes"));
  await memory.slots.delete("notes", { project });
  await assert.rejects(memory.slots.get("notes", { project }), NotFound);
});

test("actions", async () => {
  const memory = client();
  const project = ownProject();
  const first = await memory.actions.create("Build", { project });
  const second = await memory.actions.create("Deploy", { project, requires: [first.id] });
  assert.deepEqual((await memory.frontier({ project })).items.map((one) => one.id), [first.id]);
  await memory.actions.update(first.id, { status: "done", result: "built" });
  assert.deepEqual((await memory.frontier({ project })).items.map((one) => one.id), [second.id]);
  assert.equal((await memory.actions.get(first.id)).result, "built");
  assert.deepEqual((await all(memory.actions.list(project, { open: true }))).map((one) => one.id), [second.id]);
  await memory.actions.delete(second.id);
  await assert.rejects(memory.actions.get(second.id), NotFound);
});

test("agents claim work in turn and change it with their token", async () => {
  const [ada, bob] = [client(), client("bob")];
  const project = ownProject();
  const { id } = await ada.actions.create("Rotate the keys", { project, tags: ["security"] });
  const claim = await ada.actions.claimNext(project, { labels: ["security"], lease_seconds: 60 });
  assert.deepEqual([claim?.id, claim?.action.holder], [id, "ada"]);
  const refusal = { holder: "ada", expiresAt: claim?.expires_at };
  await assert.rejects(bob.actions.claim(id), (error) => {
    assert.ok(error instanceof AlreadyClaimed);
    assert.deepEqual({ holder: error.holder, expiresAt: error.expiresAt }, refusal);
    return true;
  });
  assert.equal(await bob.actions.claimNext(project), undefined);
  const token = claim!.token;
  assert.equal((await ada.actions.renew(id, token, { lease_seconds: 3600 })).token, token);
  await ada.actions.release(id, token);
  await assert.rejects(ada.actions.update(id, { result: "too late", token }), StaleToken);
  const again = await bob.actions.claim(id);
  const done = await bob.actions.complete(id, again.token, "All four.");
  assert.equal(done.version, again.version! + 1);
  assert.equal((await bob.actions.get(id)).result, "All four.");
});

test("a change that expects another version changes nothing", async () => {
  const memory = client();
  const project = ownProject();
  assert.equal((await memory.slots.set("plan", "one", { project, expected_version: 0 })).version, 1);
  const late = memory.slots.set("plan", "two", { project, expected_version: 0 });
  await assert.rejects(late, (error) => {
    assert.ok(error instanceof VersionConflict);
    assert.deepEqual([error.version, error.changedBy], [1, "ada"]);
    return true;
  });
  assert.equal((await memory.slots.get("plan", { project })).content, "one");
});

test("sessions, the context and the log", async () => {
  const memory = client();
  const project = ownProject();
  await memory.sessions.start("s/1", { project, title: "Fix the build" });
  await memory.observations.create("s/1", "pinned the linker", { project, kind: "decision" });
  await memory.lessons.create("Pin the toolchain", { project });
  await memory.sessions.end("s/1", { project, outcome: "completed" });
  assert.equal((await memory.sessions.get("s/1", { project })).title, "Fix the build");
  assert.equal((await memory.sessions.summarise("s/1", { project })).summary.observation_count, 1);
  assert.equal((await memory.sessions.summary("s/1", { project })).session_id, "s/1");
  assert.deepEqual((await all(memory.sessions.list(project))).map((one) => one.id), ["s/1"]);
  assert.ok((await all(memory.projects({ pageSize: 1 }))).some((one) => one.project === project && one.documents > 0));
  assert.ok((await all(memory.agents(project))).every((one) => one.documents > 0));
  assert.match((await memory.context(project, { token_budget: 500 })).context, /Pin the toolchain/);
  const types = new Set((await all(memory.events("", { project }))).map((one) => one.type));
  assert.ok(types.has("observation.recorded") && types.has("session.ended"));
  assert.equal((await memory.sessions.delete("s/1", { project })).documents["observation"], 1);
});

test("a batch, and forgetting a project", async () => {
  const memory = client();
  const project = ownProject();
  const answer = await memory.batch([
    { type: "remember", content: "tea", project },
    { type: "observe", content: "", session_id: "s1", project },
  ]);
  assert.deepEqual([answer.accepted, answer.rejected.map((one) => one.index)], [1, [1]]);
  const receipt = await memory.forget("project", project);
  assert.equal((await memory.receipts.wait(receipt.id)).status, "done");
  assert.equal((await memory.receipts.get(receipt.id)).subject, project);
  assert.ok((await memory.receipts.list({ pageSize: 1 }).next()).value);
  assert.deepEqual(await all(memory.memories.list(project)), []);
});

test("events are followed as they come, and later behind one of them", async () => {
  const memory = client();
  const project = ownProject();
  const { position } = await memory.add("from before", { project });
  const after = `${position.split(":")[0]}:${Number(/:(\d+)/.exec(position)![1]) - 1}-0`;
  const live = memory.live(after, { project });
  const first = (await live.next()).value;
  assert.equal(first?.position, position);
  const written = await memory.add("here and now", { project });
  assert.equal((await live.next()).value?.position, written.position);
  await live.return();
  for await (const event of memory.live({ after: first!.after, project })) {
    assert.equal(event.position, written.position);
    break;
  }
  const open = memory.live({ project });
  const waiting = open.next();
  await memory.close();
  assert.equal((await waiting).done, true);
});

test("refusals are errors of their own", async () => {
  await assert.rejects(client().recall("tea", { limit: 0 }), (error: MnemologError) => {
    assert.ok(error instanceof InvalidRequest);
    assert.equal(error.field, "limit");
    return true;
  });
  await assert.rejects(new Mnemolog({ secret: "not-the-secret" }).recall("tea"), Unauthorized);
});

test("a key that asked too often is waited for as long as the server says, or told at once", async () => {
  const secret = process.env["MNEMOLOG_LIMITED_KEY"]; // 30 reads a minute
  const statuses: number[] = [];
  const counting: typeof fetch = async (url, request) => {
    const response = await fetch(url, request);
    statuses.push(response.status);
    return response;
  };
  const patient = new Mnemolog({ secret, retry: PATIENT, fetch: counting });
  while (!statuses.includes(429)) await patient.recall("tea");
  assert.equal(statuses.at(-1), 200);
  const hasty = new Mnemolog({ secret, retry: { patienceS: 0 } });
  const twice = async (): Promise<unknown> => [await hasty.recall("tea"), await hasty.recall("tea")];
  const error = await twice().catch((fault: unknown) => fault);
  assert.ok(error instanceof Overloaded);
  assert.equal(error.message, "this key's rate limit is 30 reads a minute");
  assert.equal(error.reason, "limit");
  assert.ok(error.retryAfterS! >= 1 && error.retryAfterS! <= 60);
});
