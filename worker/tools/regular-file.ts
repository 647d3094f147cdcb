import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { ToolFailure } from "./tool.ts";

/** What `read` and `edit` hold in memory at most. */
export const FILE_LIMIT_BYTES = 262_144;

/**
 * Opens a file for reading; anything but a regular file is a failure. Without O_NONBLOCK, opening a FIFO would wait
 * for a writer; O_NOFOLLOW refuses a link put there after the path was checked.
 */
export async function openRegularFile(
  tool: string,
  path: string,
  given: string,
): Promise<{ readonly file: FileHandle; readonly size: number }> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new ToolFailure(`${tool}: ${given} is not a regular file`);
    return { file, size: stat.size };
  } catch (error) {
    await file.close();
    throw error;
  }
}
