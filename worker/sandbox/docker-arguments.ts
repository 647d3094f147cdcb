import type { Mount } from "./bwrap-arguments.ts";
import type { Environment } from "./launcher.ts";
import type { Limits } from "./limits.ts";

export const CONTAINER_WORKSPACE = "/workspace";
/** Processors that one container may keep busy. */
const CPUS = 2;

export interface ContainerShape {
  readonly name: string;
  readonly image: string;
  readonly sessionId: string;
  /** The session's folder on the engine's host. */
  readonly folder: string;
  readonly readOnly: readonly Mount[];
  readonly user: number;
  readonly network: "none" | "host";
  readonly limits: Limits;
}

/**
 * `docker run` for one work item. The container lives as long as its standard input is open: however the worker ends,
 * the engine sees it close and removes the container with all that runs in it.
 */
export function runArguments(shape: ContainerShape): readonly string[] {
  const { limits } = shape;
  return [
    "run",
    ...["--interactive", "--rm", "--init"],
    ...["--name", shape.name, "--hostname", "mango", "--label", `mango.session=${shape.sessionId}`],
    ...["--network", shape.network],
    ...["--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
    ...["--read-only", "--tmpfs", `/tmp:rw,nosuid,nodev,size=${limits.tmpBytes}`, "--shm-size", "64m"],
    ...["--user", `${shape.user}:${shape.user}`],
    ...["--pids-limit", String(limits.processes)],
    // The same for both: no swap besides.
    ...["--memory", String(limits.memoryBytes), "--memory-swap", String(limits.memoryBytes)],
    ...["--cpus", String(CPUS)],
    ...["--ulimit", `cpu=${limits.cpuSeconds}`, "--ulimit", `fsize=${limits.fileBytes}`, "--ulimit", "core=0"],
    ...["--mount", mount(["type=bind", `source=${shape.folder}`, `target=${CONTAINER_WORKSPACE}`])],
    ...shape.readOnly.flatMap(({ host, inside }) => [
      "--mount",
      mount(["type=bind", `source=${host}`, `target=${inside}`, "readonly"]),
    ]),
    ...["--workdir", CONTAINER_WORKSPACE],
    shape.image,
    ...["/bin/sh", "-c", "echo ready; exec cat >/dev/null"],
  ];
}

/** `docker exec` for one program in it. */
export function execArguments(
  container: string,
  program: string,
  args: readonly string[],
  env: Environment,
): readonly string[] {
  const variables = Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]);
  return ["exec", "--interactive", "--workdir", CONTAINER_WORKSPACE, ...variables, container, program, ...args];
}

/** A line of comma-separated values, in which a path may hold commas and quotes. */
function mount(fields: readonly string[]): string {
  return fields.map((field) => (/[",]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",");
}
