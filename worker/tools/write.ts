import { z } from "zod";
import type { Workspace } from "../workspace.ts";
import { atomicWrite } from "./atomic-write.ts";
import { fileFailure } from "./file-failure.ts";
import { defineTool, requiredText, type Tool } from "./tool.ts";

export function writeTool(workspace: Workspace): Tool {
  return defineTool({
    name: "write",
    input: z.object({ file_path: requiredText(), content: z.string("must be a string") }),
    run: async ({ file_path, content }) => {
      try {
        await atomicWrite(await workspace.resolve(file_path), content);
      } catch (error) {
        throw fileFailure("write", error, file_path);
      }
      return `wrote ${Buffer.byteLength(content)} bytes to ${file_path}`;
    },
  });
}
