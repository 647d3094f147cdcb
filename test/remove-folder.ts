import { rm } from "node:fs/promises";

/**
 * Removes a folder that programs worked in, with all that is in it. What they started may write for a moment longer than
 * killing them takes: the kernel ends the rest of a process namespace after its first process. So removal tries again.
 */
export async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 8, retryDelay: 50 });
}
