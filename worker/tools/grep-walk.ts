/** Runs on the thread that `grep-thread.ts` starts: walks, matches line by line and sends what it finds. */
import { closeSync, constants, type Dirent, openSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { parentPort, workerData } from "node:worker_threads";

export interface GrepRequest {
  readonly pattern: string;
  readonly root: string;
}

export interface GrepMessage {
  readonly lines: readonly string[];
  readonly last: boolean;
}

const MAX_DEPTH = 40;
const MAX_ENTRIES = 50_000;
/** A longer line is skipped: backtracking grows with it. */
const MAX_LINE_CHARS = 2_000;
const PRUNED = new Set([".git", "node_modules"]);

let found: string[] = [];
let entries = 0;

function walk(directory: string, expression: RegExp, depth: number): void {
  if (depth > MAX_DEPTH) return;
  for (const entry of entriesOf(directory)) {
    if (PRUNED.has(entry.name)) continue;
    entries += 1;
    if (entries > MAX_ENTRIES) return;
    const path = join(directory, entry.name);
    // Links are not followed, so the walk cannot leave the root.
    if (entry.isDirectory()) walk(path, expression, depth + 1);
    else if (entry.isFile()) searchFile(path, expression);
  }
}

function entriesOf(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}

function searchFile(path: string, expression: RegExp): void {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch {
    return;
  }
  try {
    let number = 0;
    for (const line of linesOf(file)) {
      number += 1;
      if (line !== null && expression.test(line)) found.push(`${path}:${number}:${line}`);
      if (found.length >= 100) send(false);
    }
  } catch {
    // Unreadable from here on.
  } finally {
    closeSync(file);
  }
}

/** Lines without their end; null for one that is too long. A NUL ends the file: it is not text. */
function* linesOf(file: number): Generator<string | null> {
  const chunk = Buffer.alloc(65_536);
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let tooLong = false;
  for (;;) {
    const size = readSync(file, chunk, 0, chunk.length, null);
    if (size === 0) break;
    if (chunk.subarray(0, size).includes(0)) return;
    const lines = (rest + decoder.write(chunk.subarray(0, size))).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      yield tooLong || text.length > MAX_LINE_CHARS ? null : text;
      tooLong = false;
    }
    if (rest.length > MAX_LINE_CHARS + 1) {
      tooLong = true;
      rest = "";
    }
  }
  rest += decoder.end();
  if (rest !== "" || tooLong) yield tooLong || rest.length > MAX_LINE_CHARS ? null : rest;
}

function send(last: boolean): void {
  const message: GrepMessage = { lines: found, last };
  found = [];
  parentPort?.postMessage(message);
}

const { pattern, root } = workerData as GrepRequest;
const expression = new RegExp(pattern);
if (statSync(root).isFile()) searchFile(root, expression);
else walk(root, expression, 0);
send(true);
