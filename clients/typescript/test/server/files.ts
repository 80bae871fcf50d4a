/** Carries out the commands on its standard input, a JSON list, with Anthropic's memory tool; prints the answers. */

import { text } from "node:stream/consumers";

import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";

import { memoryTool } from "../../src/anthropic.ts";
import { Mnemolog } from "../../src/index.ts";

const deleted: string[] = [];
const memory = new Mnemolog({ agent: "ada" });
const onDeleted = (path: string): unknown => deleted.push(path);
const tool = memoryTool(memory, { project: process.argv[2], fields: { tags: ["typescript"] }, onDeleted });
const answers: unknown[] = [];
for (const command of JSON.parse(await text(process.stdin)) as unknown[]) {
  try {
    answers.push(await tool.run(tool.parse(command)));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    answers.push(error.content);
  }
}
console.log(JSON.stringify({ answers, deleted }));
