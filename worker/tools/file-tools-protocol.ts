import { z } from "zod";
import { FILE_TOOLS } from "./file-tools.ts";

/**
 * What the worker and the program in the sandbox say to each other: one JSON object a line. Cancelling is all that is
 * said about a call after its request; the worker has answered the call by then.
 */
export const FileToolsRequest = z.union([
  z.object({ id: z.number(), tool: z.enum(FILE_TOOLS), input: z.unknown() }),
  z.object({ cancel: z.number() }),
]);
export type FileToolsRequest = z.output<typeof FileToolsRequest>;

export const FileToolsReply = z.object({ id: z.number(), text: z.string(), isError: z.boolean() });
export type FileToolsReply = z.output<typeof FileToolsReply>;
