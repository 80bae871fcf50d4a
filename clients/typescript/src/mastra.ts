/** Tools for Mastra: `new Agent({ tools: memoryTools(new Mnemolog(), { project: "shop" }), ... })`. Needs the package `ai`. */

import type { Tool } from "ai";

import type { ToolsOptions } from "./ai-sdk.ts";
import { memoryTools as toolsOfAiSdk } from "./ai-sdk.ts";
import type { Mnemolog } from "./client.ts";

export type { ToolsOptions } from "./ai-sdk.ts";

/** A tool as Mastra's `createTool` takes it. */
export interface MastraTool {
  readonly id: string;
  readonly description: string;
  // Mastra's types of schemas differ from release to release; it takes those of the AI SDK
  readonly inputSchema: any;
  readonly execute: (given: any) => Promise<any>;
}

type Names = keyof ReturnType<typeof toolsOfAiSdk>;

/** The tools of `mnemolog-client/ai-sdk`, under the same names. */
export function memoryTools(memory: Mnemolog, options: ToolsOptions): Record<Names, MastraTool> {
  const tools = Object.entries<Tool>(toolsOfAiSdk(memory, options)).map(([id, tool]) => [id, ofMastra(id, tool)]);
  return Object.fromEntries(tools) as Record<Names, MastraTool>;
}

function ofMastra(id: string, { description = "", inputSchema, execute }: Tool): MastraTool {
  return {
    id,
    description,
    inputSchema,
    // the input itself since Mastra 1, before that the field `context` of its argument; no tool has an input so named
    execute: async (given) => execute!(given.context ?? given, { toolCallId: id, messages: [] }),
  };
}
