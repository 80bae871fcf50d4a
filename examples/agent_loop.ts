/**
 * A plain agent: it reads what is known, works, and writes down what it saw, learned and was right about.
 *
 *     npm install --prefix clients/typescript && npm install --no-save ./clients/typescript
 *     node examples/agent_loop.ts        (Node 22.18 or later, and a running server: `mnemolog up`)
 *
 * The address is taken from MNEMOLOG_URL, the key from MNEMOLOG_KEY.
 */

import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { execPath } from "node:process";

import { Mnemolog } from "mnemolog-client";
import type { Emitter } from "mnemolog-client";

const PROJECT = "agent-loop-ts";
const AGENT = "ada";
/** What was observed and not sent yet survives a crash of this process here. */
const SPOOL = join(tmpdir(), `mnemolog-${AGENT}-ts-${userInfo().uid}`);
const CHECKS: Record<string, string[]> = {
  node: [execPath, "--version"],
  tests: [execPath, "--eval", "console.log('1 failed, 12 passed'); process.exit(1)"],
};

/** Whether a command succeeded. What it warns of is read before, what came of it is observed afterward. */
async function run(
  memory: Mnemolog,
  emitter: Emitter,
  session: string,
  name: string,
  [program = "", ...args]: string[],
): Promise<boolean> {
  const preview = [program, ...args].join(" ");
  for (const lesson of await memory.lessons.match("Bash", { preview, project: PROJECT })) {
    console.log(`  careful: ${lesson.content}`);
    await memory.lessons.trigger(lesson.id);
  }
  const done = spawnSync(program, args, { encoding: "utf8" });
  const said = (done.stdout + done.stderr).trim();
  const kind = done.status === 0 ? "command_run" : "error";
  await emitter.observe(session, `${name}: ${said}`, { project: PROJECT, kind });
  console.log(`  ${name}: ${said}`);
  return done.status === 0;
}

/** One session of the agent. */
async function main(memory: Mnemolog, emitter: Emitter): Promise<void> {
  const session = `session-${randomUUID().slice(0, 8)}`;
  await memory.sessions.start(session, { project: PROJECT, title: "Check the build" });
  const context = await memory.context(PROJECT, { session_id: session, token_budget: 500 });
  console.log(`known before: ${context.tokens} tokens`);

  const known = await memory.search("what do the tests need?", { project: PROJECT, kinds: ["memory"], limit: 3 });
  for (const result of known) console.log(`recalled (${result.confidence}): ${result.snippet}`);
  if (known[0] !== undefined) await memory.confirm([known[0].id]);

  const failed: string[] = [];
  for (const [name, command] of Object.entries(CHECKS)) {
    if (!(await run(memory, emitter, session, name, command))) failed.push(name);
  }
  await emitter.flush(); // from here on, reads see what was emitted, too

  if (failed.length > 0) {
    const of = { project: PROJECT, session_id: session };
    const kept = await memory.add("The tests need the staging database.", { ...of, tags: ["tests"] });
    await memory.lessons.create("Start the database before the tests.", {
      project: PROJECT,
      severity: "warning",
      trigger_tool: "Bash",
      trigger_pattern: "process.exit",
    });
    const task = await memory.actions.create(`Repair: ${failed.join(", ")}`, { ...of, priority: 5 });
    console.log(`remembered: ${(await memory.memories.get(kept.id)).content}`);
    const ready = (await memory.frontier({ project: PROJECT })).items;
    console.log(`to do: ${ready.map((one) => one.title).join("; ")}`);
    await memory.actions.update(task.id, { status: "done", result: "left to the next session" });
  }

  await memory.sessions.end(session, { project: PROJECT, outcome: failed.length > 0 ? "failed" : "completed" });
  for await (const one of memory.sessions.observations(session, { project: PROJECT })) {
    console.log(`observed: ${one.headline}`);
  }
}

const memory = new Mnemolog({ agent: AGENT });
const emitter = await memory.emitter(SPOOL);
try {
  await main(memory, emitter);
} finally {
  await emitter.close();
  await memory.close();
}
