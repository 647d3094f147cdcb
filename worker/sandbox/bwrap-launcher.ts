import { execFile } from "node:child_process";
import { existsSync, lstatSync, readlinkSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  asUser,
  bwrapArguments,
  type Mount,
  type SandboxShape,
  type SystemDirectory,
  WORKSPACE,
} from "./bwrap-arguments.ts";
import { FILE_TOOLS_MOUNTS, fileToolsRequest, NODE_INSIDE } from "./file-tools-place.ts";
import type { Environment, LaunchedProcess, Launcher, LaunchRequest, Sandbox } from "./launcher.ts";
import { type Limits, limitedProgram } from "./limits.ts";
import { startProcess } from "./start-process.ts";
import { giveFolder, USER_INSTEAD_OF_ROOT } from "./user-instead-of-root.ts";

const run = promisify(execFile);
const ETC = fileURLToPath(new URL("./etc", import.meta.url));
/** The programs' own: the worker's may name folders that are not in there. */
const SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const SEARCHED = ["/usr/bin", "/usr/local/bin", "/bin"];

export interface BwrapOptions {
  readonly limits: Limits;
  /** `host`: the programs share the host's network, its loopback included. */
  readonly network: "none" | "host";
}

/**
 * Runs programs under bubblewrap: user, process, mount, ipc, host name and (by choice) network namespaces of their own,
 * a read-only system, and nothing of the host's other files but the session's folder. Each program (the shell, the file
 * tools) is the first of a process namespace, so killing it leaves nothing of it behind.
 */
export function bwrapLauncher(options: BwrapOptions): Launcher {
  const bwrap = findProgram("bwrap");
  const [setpriv, unshare] = [findProgram("setpriv"), findProgram("unshare")];
  const user = process.getuid?.() === 0 ? USER_INSTEAD_OF_ROOT : null;
  const system = systemDirectories();
  const features = bwrap === null ? Promise.resolve("") : run(bwrap, ["--help"]).then(({ stdout }) => stdout);

  return {
    name: "bwrap",
    async enter(place): Promise<Sandbox> {
      if (bwrap === null) throw new Error("bubblewrap is not installed");
      if (user !== null && (setpriv === null || unshare === null)) throw new Error("util-linux is not installed");
      if (user !== null) await giveFolder(place.folder, user);
      const disableUserNamespaces = (await features).includes("--disable-userns");
      const programs = { bwrap, setpriv: setpriv ?? "", unshare: unshare ?? "" };

      const live = new Set<LaunchedProcess>();
      const launch = async (request: LaunchRequest, readOnly: readonly Mount[]) => {
        const shape: SandboxShape = {
          folder: place.folder,
          etc: ETC,
          readOnly,
          system,
          network: options.network,
          disableUserNamespaces,
          limits: options.limits,
        };
        const command = user === null ? [bwrap, ...bwrapArguments(shape)] : asUser(user, programs, shape);
        const [program = bwrap, ...args] = [
          ...command,
          ...limitedProgram(options.limits),
          request.program,
          ...request.args,
        ];
        const started = startProcess({ program, args, cwd: "/", env: insideEnvironment(request.env) });
        live.add(started);
        void started.exited.then(() => live.delete(started));
        return started;
      };
      return {
        workspace: WORKSPACE,
        launch: (request) => launch(request, []),
        launchFileTools: (env) =>
          launch(fileToolsRequest(NODE_INSIDE, WORKSPACE, env), [
            ...FILE_TOOLS_MOUNTS,
            { host: realpathSync(process.execPath), inside: NODE_INSIDE },
          ]),
        async close() {
          const ends = [...live].map((program) => program.exited);
          for (const program of live) program.kill();
          await Promise.all(ends);
        },
      };
    },
  };
}

function insideEnvironment(env: Environment): Environment {
  return { ...env, PATH: SEARCH_PATH, HOME: WORKSPACE, TMPDIR: "/tmp", USER: "mango", LOGNAME: "mango" };
}

function systemDirectories(): readonly SystemDirectory[] {
  return ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].flatMap((path) => {
    if (!existsSync(path)) return [];
    return [{ path, linkTo: lstatSync(path).isSymbolicLink() ? readlinkSync(path) : null }];
  });
}

function findProgram(name: string): string | null {
  return SEARCHED.map((directory) => `${directory}/${name}`).find((path) => existsSync(path)) ?? null;
}
