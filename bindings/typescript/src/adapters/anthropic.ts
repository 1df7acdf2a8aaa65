/** Claude's memory tool on a memory. Needs the package `@anthropic-ai/sdk`. */

import { betaMemoryTool, type MemoryToolHandlers } from "@anthropic-ai/sdk/helpers/beta/memory";
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";
import type { BetaMemoryTool20250818Command } from "@anthropic-ai/sdk/resources/beta";

import type { Namespace } from "../client.js";

/**
 * The files of the memory tool in a namespace: `client.beta.messages.toolRunner({ ..., tools: [memoryTool(mnemon.namespace("users/ada"))] })`.
 * A file is a document of `users/ada/memories`: its key is its path below `/memories`, its value `{ text }`, which searches find. What the
 * model does wrong is answered in the wording that Anthropic documents, and changes nothing.
 */
export function memoryTool(namespace: Namespace, extraProps?: Parameters<typeof betaMemoryTool>[1]): ReturnType<typeof betaMemoryTool> {
  return betaMemoryTool(memoryHandlers(namespace), extraProps);
}

/** The handlers that `betaMemoryTool` takes. */
export function memoryHandlers(namespace: Namespace): MemoryToolHandlers {
  const run = async (command: BetaMemoryTool20250818Command): Promise<string> => {
    const { content, is_error } = await namespace.memoryTool(command);
    if (is_error) throw new ToolError(content);
    return content;
  };
  return { view: run, create: run, str_replace: run, insert: run, delete: run, rename: run };
}
