/**
 * Emits observations while somebody kills the server: `node emitting.js SPOOL PROJECT`.
 *
 * Prints `kill` when the server is to be killed, `trouble` when that was noticed, and at the end what was stored.
 */

import { Mnemolog, Unreachable } from "../../src/index.ts";
import { all, until } from "../support.ts";

const [EVENTS, SESSIONS, BEFORE_THE_KILL] = [2_000, 4, 500];
const [spool, project] = process.argv.slice(2) as [string, string];

const client = new Mnemolog({ agent: "ada", retry: { attempts: 100, patienceS: 60 } });
const emitter = await client.emitter(spool, { batchEvents: 50, flushEveryS: 0.01 });
const ids: string[] = [];

async function emit(from: number, to: number): Promise<void> {
  for (let n = from; n < to; n += 1) ids.push(await emitter.observe(`s${n % SESSIONS}`, String(n), { project }));
}

await emit(0, EVENTS / 2);
await until(() => emitter.stats.accepted >= BEFORE_THE_KILL);
console.log("kill");
await emit(EVENTS / 2, EVENTS);
await until(() => emitter.stats.trouble instanceof Unreachable);
console.log("trouble");
await emitter.flush({ timeoutS: 120 });
const sessions: string[][] = [];
for (let n = 0; n < SESSIONS; n += 1) {
  sessions.push((await all(client.sessions.observations(`s${n}`, { project }))).map((one) => one.content));
}
const events = await all(client.events("", { project, type: "observation.recorded" }));
const { trouble, ...stats } = emitter.stats;
console.log(JSON.stringify({ ids, sessions, stats, logged: events.map((one) => one.event_id) }));
await emitter.close();
