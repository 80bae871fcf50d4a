/**
 * The Vercel AI SDK with mnemolog's tools: what the model remembers in one request, it recalls in the next.
 *
 *     npm install ai ./clients/typescript
 *     node examples/ai_sdk_tools.ts        (needs a running server: `mnemolog up`; no language model)
 *
 * A function plays the model; pass `generateText` a real one instead.
 */

import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { Mnemolog } from "mnemolog-client";
import { memoryTools } from "mnemolog-client/ai-sdk";

type Generated = Awaited<ReturnType<MockLanguageModelV3["doGenerate"]>>;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Remember a statement, recall for a question, then answer with what the tool returned. */
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }): Promise<Generated> => {
    const newest = prompt.at(-1)!;
    const [part] = newest.content as readonly { type: string; text?: string; output?: { value: unknown } }[];
    if (newest.role === "tool") {
      const content: Generated["content"] = [{ type: "text", text: JSON.stringify(part?.output?.value) }];
      return { content, finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
    }
    const text = part?.text ?? "";
    const [toolName, input] = text.endsWith("?") ? ["recall", { query: text }] : ["remember", { content: text }];
    const call = { type: "tool-call", toolCallId: crypto.randomUUID(), toolName, input: JSON.stringify(input) } as const;
    return { content: [call], finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] };
  },
});

const memory = new Mnemolog({ agent: "ada" });
const tools = memoryTools(memory, { project: `ai-sdk-${crypto.randomUUID().slice(0, 8)}` });
for (const prompt of ["We deploy on Tuesdays, never on Fridays.", "When do we deploy?"]) {
  const { text } = await generateText({ model, tools, prompt, stopWhen: stepCountIs(3) });
  console.log(text);
}
await memory.close();
