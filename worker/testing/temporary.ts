import { mkdtemp, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Log } from "../../shared/ports/log.ts";
import { removeFolder } from "../../test/remove-folder.ts";
import { Workspace } from "../workspace.ts";

/** A directory that goes when the test ends. */
export async function temporaryDirectory(): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), "mango-worker-")));
  onTestFinished(() => removeFolder(path));
  return path;
}

/** A workspace with a directory around it that its tools must not reach. */
export async function temporaryWorkspace(): Promise<{ readonly outside: string; readonly workspace: Workspace }> {
  const outside = await temporaryDirectory();
  return { outside, workspace: await Workspace.open(outside, "sesn_1") };
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
export const noAbort = new AbortController().signal;
