/** The tools for the AI SDK, called by a scripted model of the SDK, against a real server. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { generateText, stepCountIs } from "ai";
import type { ToolSet } from "ai";
import { MockLanguageModelV3 } from "ai/test";

import { memoryTools } from "../../src/ai-sdk.ts";
import { newEventId } from "../../src/calls.ts";
import { Mnemolog, NotFound } from "../../src/index.ts";

type Call = readonly [tool: string, input: Record<string, unknown>];
type Generated = Awaited<ReturnType<MockLanguageModelV3["doGenerate"]>>;

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** What the tools return, and their names, when a model calls them one after the other. */
async function called(tools: ToolSet, calls: readonly Call[]): Promise<unknown[]> {
  let step = 0;
  const doGenerate = async (): Promise<Generated> => {
    const call = calls[step++];
    const content: Generated["content"] = call === undefined
      ? [{ type: "text", text: "done" }]
      : [{ type: "tool-call", toolCallId: `c${step}`, toolName: call[0], input: JSON.stringify(call[1]) }];
    const unified = call === undefined ? "stop" : "tool-calls";
    return { content, finishReason: { unified, raw: undefined }, usage: USAGE, warnings: [] };
  };
  const model = new MockLanguageModelV3({ doGenerate });
  const { steps, text } = await generateText({ model, tools, prompt: "go", stopWhen: stepCountIs(calls.length + 1) });
  assert.equal(text, "done");
  return steps.flatMap(({ content }) => content).flatMap((part) => {
    if (part.type === "tool-result") return [part.output];
    return part.type === "tool-error" ? [part.error] : [];
  });
}

test("a model remembers, recalls, revises and forgets", async () => {
  const memory = new Mnemolog({ agent: "ada" });
  const project = `project-${newEventId().slice(0, 12)}`;
  const tools = memoryTools(memory, { project, userId: "bob" });
  const [remembered, recalled] = await called(tools, [
    ["remember", { content: "Bob lives in Rome.", tags: ["home"] }],
    ["recall", { query: "where does Bob live?" }],
  ]);
  const { id } = remembered as { id: string };
  assert.deepEqual((recalled as { id: string; content: string }[]).map((one) => [one.id, one.content]), [
    [id, "Bob lives in Rome."],
  ]);
  assert.equal((await memory.memories.get(id)).user_id, "bob");
  const [revised] = await called(tools, [["revise", { id, content: "Bob lives in Oslo." }]]);
  const newer = (revised as { id: string }).id;
  assert.deepEqual((await memory.memories.history(id)).map((one) => one.content), [
    "Bob lives in Rome.", "Bob lives in Oslo.",
  ]);
  await called(tools, [["forget", { id: newer }]]);
  await assert.rejects(memory.memories.get(newer), NotFound);
  const others = memoryTools(memory, { project, userId: "eve" });
  assert.deepEqual(await called(others, [["recall", { query: "where does Bob live?" }]]), [[]]);
});

test("what the server refuses is the tool's error", async () => {
  const tools = memoryTools(new Mnemolog(), { project: `project-${newEventId().slice(0, 12)}` });
  const [unknown, blank] = await called(tools, [["forget", { id: "mem_0" }], ["remember", { content: " " }]]);
  assert.ok(unknown instanceof NotFound);
  assert.match(String(blank), /content/);
});
