/**
 * Emits to a spool, `node leaving.js SPOOL PROJECT CONTENT...`, and prints how many were accepted within no time.
 *
 * Without a content it sends what is there.
 */

import { Mnemolog } from "../../src/index.ts";

const [spool, project, ...contents] = process.argv.slice(2) as [string, string, ...string[]];

const emitter = await new Mnemolog({ agent: "ada" }).emitter(spool, { flushEveryS: 3600 });
for (const content of contents) await emitter.observe("s1", content, { project });
if (contents.length === 0) await emitter.flush();
console.log(emitter.stats.accepted);
await emitter.close({ timeoutS: 0 });
