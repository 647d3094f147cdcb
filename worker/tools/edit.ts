import { z } from "zod";
import type { Workspace } from "../workspace.ts";
import { atomicWrite } from "./atomic-write.ts";
import { fileFailure } from "./file-failure.ts";
import { FILE_LIMIT_BYTES, openRegularFile } from "./regular-file.ts";
import { defineTool, optionalFlag, requiredText, type Tool, ToolFailure } from "./tool.ts";

export function editTool(workspace: Workspace): Tool {
  return defineTool({
    name: "edit",
    input: z.object({
      file_path: requiredText(),
      old_string: requiredText(),
      new_string: z.string("must be a string"),
      replace_all: optionalFlag(),
    }),
    run: async ({ file_path, old_string, new_string, replace_all }) => {
      try {
        const path = await workspace.resolve(file_path);
        const pieces = (await readText(path, file_path)).split(old_string);
        const count = pieces.length - 1;
        if (count === 0) throw new ToolFailure(`edit: old_string not found in ${file_path}`);
        if (count > 1 && !replace_all) {
          throw new ToolFailure(`edit: old_string appears ${count} times in ${file_path} (must be unique)`);
        }
        await atomicWrite(path, pieces.join(new_string));
        return `edited ${file_path} (${count} replacement(s))`;
      } catch (error) {
        throw fileFailure("edit", error, file_path);
      }
    },
  });
}

/** The whole file, which must be UTF-8: replacing a byte that cannot be decoded would damage the rest of the file. */
async function readText(path: string, given: string): Promise<string> {
  const { file, size } = await openRegularFile("edit", path, given);
  try {
    if (size > FILE_LIMIT_BYTES) {
      throw new ToolFailure(
        `edit: ${given} is ${size} bytes, exceeds ${FILE_LIMIT_BYTES}-byte limit. ` +
          "The edit tool loads the whole file and cannot modify a file this large.",
      );
    }
    const bytes = await file.readFile();
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new ToolFailure(`edit: ${given} is not valid UTF-8`);
    }
  } finally {
    await file.close();
  }
}
