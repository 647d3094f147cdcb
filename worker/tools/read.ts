import type { FileHandle } from "node:fs/promises";
import { z } from "zod";
import type { Workspace } from "../workspace.ts";
import { fileFailure } from "./file-failure.ts";
import { FILE_LIMIT_BYTES, openRegularFile } from "./regular-file.ts";
import { defineTool, requiredText, type Tool, ToolFailure } from "./tool.ts";

const RANGE = "must be [start_line, end_line]";
const NEWLINE = Buffer.from("\n");

export function readTool(workspace: Workspace): Tool {
  return defineTool({
    name: "read",
    input: z.object({
      file_path: requiredText(),
      view_range: z.tuple([z.int(RANGE), z.int(RANGE)], RANGE).nullish(),
    }),
    run: async ({ file_path, view_range }) => {
      try {
        const { file, size } = await openRegularFile("read", await workspace.resolve(file_path), file_path);
        try {
          if (view_range) return await readLines(file, file_path, view_range[0], view_range[1]);
          if (size > FILE_LIMIT_BYTES) {
            throw new ToolFailure(
              `read: ${file_path} is ${size} bytes, exceeds ${FILE_LIMIT_BYTES}-byte limit. ` +
                "Use the view_range parameter to read specific line ranges, e.g. view_range: [1, 500].",
            );
          }
          return await file.readFile("utf8");
        } finally {
          await file.close();
        }
      } catch (error) {
        throw fileFailure("read", error, file_path);
      }
    },
  });
}

/**
 * Lines `start` to `end`, counted from 1, both included; an end of 0 or less is the end of the file. Reads pieces, not
 * lines: one endless line must not fill the memory.
 */
async function readLines(file: FileHandle, given: string, start: number, end: number): Promise<string> {
  const first = Math.max(1, start);
  const last = end > 0 ? end : Number.POSITIVE_INFINITY;
  const pieces: Buffer[] = [];
  let bytes = 0;
  const take = (piece: Buffer) => {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > FILE_LIMIT_BYTES) throw overLimit(given, start, end);
  };

  let line = 1;
  for await (const chunk of file.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
    let from = 0;
    while (from < chunk.length && line <= last) {
      const newline = chunk.indexOf(0x0a, from);
      if (line >= first) take(chunk.subarray(from, newline < 0 ? chunk.length : newline));
      if (newline < 0) break;
      if (line >= first && line < last) take(NEWLINE);
      line += 1;
      from = newline + 1;
    }
    if (line > last) break;
  }
  return Buffer.concat(pieces, bytes).toString("utf8");
}

function overLimit(given: string, start: number, end: number): ToolFailure {
  if (start === end) {
    return new ToolFailure(
      `read: line ${start} of ${given} alone exceeds ${FILE_LIMIT_BYTES}-byte limit. ` +
        "The read tool cannot return part of a line, so view_range cannot narrow this further.",
    );
  }
  return new ToolFailure(
    `read: view_range [${start}, ${end}] of ${given} exceeds ${FILE_LIMIT_BYTES}-byte limit. ` +
      "Narrow the view_range to read a smaller portion.",
  );
}
