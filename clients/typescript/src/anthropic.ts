/** Anthropic's memory tool on memories: `client.beta.messages.toolRunner({ tools: [memoryTool(new Mnemolog())], ... })`. */

import type { BetaRunnableTool } from "@anthropic-ai/sdk/lib/tools/BetaRunnableTool";
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";
import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";
import type { BetaMemoryTool20250818Command } from "@anthropic-ai/sdk/resources/beta";

import { Forbidden, InvalidRequest } from "./errors.ts";
import type { FilesOptions } from "./files.ts";
import { FileError, MemoryFiles } from "./files.ts";
import type { Memories } from "./nouns.ts";

export { FileError, MemoryFiles } from "./files.ts";
export type { FilesOptions } from "./files.ts";

/** The tool. Errors that a model can act on are its answers; others are thrown. */
export function memoryTool(
  client: { readonly memories: Memories },
  options: FilesOptions = {},
): BetaRunnableTool<BetaMemoryTool20250818Command> {
  const files = new MemoryFiles(client, options);
  return betaMemoryTool({
    view: (command) => forTheModel(files.view(command.path, command.view_range)),
    create: (command) => forTheModel(files.create(command.path, command.file_text)),
    str_replace: (command) => forTheModel(files.strReplace(command.path, command.old_str, command.new_str)),
    insert: (command) => forTheModel(files.insert(command.path, command.insert_line, command.insert_text)),
    delete: (command) => forTheModel(files.delete(command.path)),
    rename: (command) => forTheModel(files.rename(command.old_path, command.new_path)),
  });
}

async function forTheModel(answer: Promise<string>): Promise<string> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof FileError) throw new ToolError(error.message);
    if (error instanceof InvalidRequest || error instanceof Forbidden) throw new ToolError(`Error: ${error.message}`);
    throw error;
  }
}
