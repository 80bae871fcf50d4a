/** Tools for the Vercel AI SDK: `generateText({ model, tools: memoryTools(new Mnemolog(), { project: "shop" }), ... })`. */

import type { Tool } from "ai";
import { jsonSchema, tool } from "ai";

import type { Mnemolog } from "./client.ts";

export interface ToolsOptions {
  readonly project: string;
  /** Only memories of this user are recalled, and new ones are this user's. */
  readonly userId?: string | undefined;
}

const TEXT = { type: "string" } as const;

/** The tools `recall`, `remember`, `revise` and `forget`. What the server refuses is thrown, and so told to the model. */
export function memoryTools(
  memory: Mnemolog,
  { project, userId }: ToolsOptions,
): { recall: Tool; remember: Tool; revise: Tool; forget: Tool } {
  const recall = tool({
    description: "Search the memory. Use it before you answer from assumptions.",
    inputSchema: input<{ query: string; limit?: number }>(
      { query: { ...TEXT, description: "A question or keywords." }, limit: { type: "integer", minimum: 1, maximum: 50 } },
      ["query"],
    ),
    execute: async ({ query, limit = 5 }) => {
      const results = await memory.search(query, { project, user_id: userId, limit });
      return results.map(({ id, kind, content, occurred_at }) => ({ id, kind, content, occurred_at }));
    },
  });
  const remember = tool({
    description: "Save a fact, decision or preference for later sessions and other agents.",
    inputSchema: input<{ content: string; tags?: string[] }>(
      { content: { ...TEXT, description: "One fact in full sentences." }, tags: { type: "array", items: TEXT } },
      ["content"],
    ),
    execute: async ({ content, tags }) => {
      const { id, superseded } = await memory.add(content, { project, user_id: userId, tags });
      return { id, superseded };
    },
  });
  const revise = tool({
    description: "Correct a memory. The old version stays in its history.",
    inputSchema: input<{ id: string; content: string }>(
      { id: { ...TEXT, description: "As recall returns it." }, content: { ...TEXT, description: "The complete new text." } },
      ["id", "content"],
    ),
    execute: async ({ id, content }) => ({ id: (await memory.memories.revise(id, { content })).id }),
  });
  const forget = tool({
    description: "Delete a memory for good. Use it only if the user asks for it.",
    inputSchema: input<{ id: string }>({ id: { ...TEXT, description: "As recall returns it." } }, ["id"]),
    execute: async ({ id }) => ({ id: (await memory.memories.delete(id)).id, forgotten: true }),
  });
  return { recall, remember, revise, forget };
}

function input<T>(properties: Record<string, object>, required: string[]) {
  return jsonSchema<T>({ type: "object", properties, required, additionalProperties: false });
}
