import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Toolset } from "../tools/toolset.ts";
import { bwrapLauncher } from "./bwrap-launcher.ts";
import { dockerLauncher } from "./docker-launcher.ts";
import { ALLOW_PROCESS, type Launcher, type LauncherName } from "./launcher.ts";
import type { Limits } from "./limits.ts";
import { processLauncher } from "./process-launcher.ts";

const INSTALL = "apt-get install bubblewrap (or your system's package of that name)";

export interface LauncherChoice {
  /** `auto`: bubblewrap where it works, else `process`. */
  readonly wanted: LauncherName | "auto";
  /** That tools may run beside the worker, isolated from nothing: said by whoever runs it. */
  readonly allowProcess: boolean;
  readonly limits: Limits;
  readonly network: "none" | "host";
  readonly dockerImage: string;
}

/** There is no launcher that may be used and works. The message says what to do. */
export class NoLauncher extends Error {}

/**
 * The launcher to use, tried out once: a shell and the file tools have run in it.
 *
 * `process` needs leave wherever the model may be a real one, and a worker cannot know: what a model or a text that it
 * read makes of a shell is anybody's guess. `npm start` gives leave when its model is the offline one.
 */
export async function chooseLauncher(choice: LauncherChoice): Promise<Launcher> {
  const { wanted, allowProcess } = choice;
  if (wanted === "process") {
    if (allowProcess) return processLauncher;
    throw new NoLauncher(
      `the process launcher runs tools as this user, isolated from nothing; use bwrap (${INSTALL}) or docker, ` +
        `or set ${ALLOW_PROCESS}=1 on a machine that may be lost`,
    );
  }
  if (wanted === "docker") {
    const docker = dockerLauncher({ ...choice, image: choice.dockerImage });
    const problem = await problemOf(docker);
    if (problem === null) return docker;
    throw new NoLauncher(`docker cannot run tools here (${problem}); its image must hold bash and Node 24`);
  }
  const bwrap = bwrapLauncher(choice);
  const problem = await problemOf(bwrap);
  if (problem === null) return bwrap;
  if (wanted === "auto" && allowProcess) return processLauncher;
  throw new NoLauncher(
    `bubblewrap cannot run tools here (${problem}): ${INSTALL}, and let this user make user namespaces` +
      (wanted === "auto" ? `; or use docker, or set ${ALLOW_PROCESS}=1 on a machine that may be lost` : ""),
  );
}

/** Why tools do not run there, or null: one call of each kind in a folder of no session. */
export async function problemOf(launcher: Launcher): Promise<string | null> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "mango-launcher-")));
  try {
    const sandbox = await launcher.enter({ sessionId: "launcher-check", folder });
    try {
      const tools = await Toolset.open(sandbox, { PATH: "/usr/bin:/bin" });
      const calls = [
        { name: "bash", input: { command: "true" }, idempotencyKey: null },
        { name: "write", input: { file_path: "check", content: "" }, idempotencyKey: null },
      ];
      const results = await Promise.all(calls.map((call) => tools.run(call, new AbortController().signal)));
      tools.close();
      return results.find(({ isError }) => isError)?.text ?? null;
    } finally {
      await sandbox.close();
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
