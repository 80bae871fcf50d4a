/**
 * A Mastra agent with mnemolog's tools: what it remembers in one request, it recalls in the next.
 *
 *     npm install @mastra/core ai ./clients/typescript
 *     node examples/mastra_agent.ts        (needs a running server: `mnemolog up`; no language model)
 *
 * An object plays the model; pass `Agent` the name of a real one instead.
 */

import { Agent } from "@mastra/core/agent";
import { Mnemolog } from "mnemolog-client";
import { memoryTools } from "mnemolog-client/mastra";

interface Part {
  readonly text?: string;
  readonly output?: { readonly value: unknown };
}

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

/** Remembers a statement, recalls for a question, then answers with what the tool returned. */
const model = {
  specificationVersion: "v2" as const,
  provider: "scripted",
  modelId: "scripted",
  supportedUrls: {},
  async doGenerate({ prompt }: { prompt: { role: string; content: unknown }[] }) {
    const newest = prompt.at(-1)!;
    const [part] = newest.content as [Part];
    if (newest.role === "tool") {
      const content = [{ type: "text" as const, text: JSON.stringify(part.output?.value) }];
      return { content, finishReason: "stop" as const, usage, warnings: [] };
    }
    const text = part.text ?? "";
    const [toolName, input] = text.endsWith("?") ? ["recall", { query: text }] : ["remember", { content: text }];
    const call = { type: "tool-call" as const, toolCallId: crypto.randomUUID(), toolName: String(toolName) };
    const content = [{ ...call, input: JSON.stringify(input) }];
    return { content, finishReason: "tool-calls" as const, usage, warnings: [] };
  },
  async doStream(): Promise<never> {
    throw new Error("this model does not stream");
  },
};

const memory = new Mnemolog({ agent: "ada" });
const tools = memoryTools(memory, { project: `mastra-${crypto.randomUUID().slice(0, 8)}` });
const agent = new Agent({ name: "ada", instructions: "Use your memory.", model, tools });
for (const prompt of ["We deploy on Tuesdays, never on Fridays.", "When do we deploy?"]) {
  console.log((await agent.generate(prompt)).text);
}
await memory.close();
