import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { CONTAINER_WORKSPACE, type ContainerShape, execArguments, runArguments } from "./docker-arguments.ts";
import { FILE_TOOLS_MOUNTS, fileToolsRequest } from "./file-tools-place.ts";
import type { Environment, LaunchedProcess, Launcher, LaunchRequest, Sandbox } from "./launcher.ts";
import type { Limits } from "./limits.ts";
import { startProcess } from "./start-process.ts";
import { giveFolder, USER_INSTEAD_OF_ROOT } from "./user-instead-of-root.ts";

const run = promisify(execFile);
const START_TIMEOUT_MS = 60_000;
/** What an image brings for itself. */
const OF_THE_IMAGE = ["PATH", "HOME", "USER", "TMPDIR"];

export const DEFAULT_DOCKER_IMAGE = "node:24-bookworm";

export interface DockerOptions {
  readonly limits: Limits;
  readonly network: "none" | "host";
  /** Must hold bash and Node 24 (`node` on its path); ripgrep makes `grep` faster. */
  readonly image: string;
  /** The client; found on the path. */
  readonly docker?: string;
}

/**
 * Runs the programs of a work item in one hardened container, with the session's folder as its only volume. Killing a
 * program ends the container, so that nothing which it started survives; the next program gets a new one.
 */
export function dockerLauncher(options: DockerOptions): Launcher {
  const docker = options.docker ?? "docker";
  return {
    name: "docker",
    async enter({ sessionId, folder }): Promise<Sandbox> {
      const root = process.getuid?.() === 0;
      if (root) await giveFolder(folder, USER_INSTEAD_OF_ROOT);
      await removeLeftovers(docker, sessionId);
      const container = new Container(docker, {
        ...options,
        sessionId,
        folder,
        readOnly: FILE_TOOLS_MOUNTS,
        user: root ? USER_INSTEAD_OF_ROOT : (process.getuid?.() ?? USER_INSTEAD_OF_ROOT),
      });
      await container.ready();
      return {
        workspace: CONTAINER_WORKSPACE,
        launch: (request) => container.exec(request),
        launchFileTools: (env) => container.exec(fileToolsRequest("node", CONTAINER_WORKSPACE, env)),
        close: () => container.remove(),
      };
    },
  };
}

/** What an activation left that could not end well; its session is ours now. */
async function removeLeftovers(docker: string, sessionId: string): Promise<void> {
  const { stdout } = await run(docker, ["ps", "--all", "--quiet", "--filter", `label=mango.session=${sessionId}`]);
  const ids = stdout.split("\n").filter((id) => id !== "");
  if (ids.length > 0) await run(docker, ["rm", "--force", ...ids]);
}

/** One container at a time, a new one after each end. */
class Container {
  readonly #docker: string;
  readonly #shape: Omit<ContainerShape, "name">;
  #current: Promise<RunningContainer> | null = null;
  #closed = false;

  constructor(docker: string, shape: Omit<ContainerShape, "name">) {
    this.#docker = docker;
    this.#shape = shape;
  }

  async ready(): Promise<void> {
    await this.#running();
  }

  async exec({ program, args, env }: LaunchRequest): Promise<LaunchedProcess> {
    const { name } = await this.#running();
    const started = startProcess({
      program: this.#docker,
      args: execArguments(name, program, args, insideEnvironment(env)),
      cwd: "/",
      env: clientEnvironment(),
    });
    const kill = () => {
      started.kill();
      void this.#end();
    };
    return { ...started, kill };
  }

  async remove(): Promise<void> {
    this.#closed = true;
    await this.#end();
  }

  #running(): Promise<RunningContainer> {
    if (this.#closed) return Promise.reject(new Error("the sandbox is closed"));
    if (this.#current === null) {
      const starting = this.#start();
      this.#current = starting;
      const gone = () => {
        if (this.#current === starting) this.#current = null;
      };
      starting.then((running) => void running.client.exited.then(gone), gone);
    }
    return this.#current;
  }

  async #start(): Promise<RunningContainer> {
    const name = `mango-${this.#shape.sessionId}-${randomUUID().slice(0, 8)}`;
    const args = runArguments({ ...this.#shape, name });
    const client = startProcess({ program: this.#docker, args, cwd: "/", env: clientEnvironment() });
    client.stderr.resume();
    const { promise: ready, resolve } = Promise.withResolvers<boolean>();
    client.stdout.once("data", () => resolve(true));
    void client.exited.then(() => resolve(false));
    const timer = setTimeout(() => resolve(false), START_TIMEOUT_MS);
    const started = await ready;
    clearTimeout(timer);
    if (!started) {
      client.kill();
      throw new Error("the container did not start");
    }
    return { name, client };
  }

  async #end(): Promise<void> {
    const ending = this.#current;
    this.#current = null;
    const running = await ending?.catch(() => null);
    if (!running) return;
    // Gone already, if it refuses.
    await run(this.#docker, ["rm", "--force", running.name]).catch(() => {});
    running.client.kill();
  }
}

interface RunningContainer {
  readonly name: string;
  /** `docker run`, whose end is the container's. */
  readonly client: LaunchedProcess;
}

function insideEnvironment(env: Environment): Environment {
  const passed = Object.entries(env).filter(([name]) => !OF_THE_IMAGE.includes(name));
  return { ...Object.fromEntries(passed), HOME: CONTAINER_WORKSPACE, TMPDIR: "/tmp" };
}

/** The client finds its engine as the operator has set it up; the container sees none of this. */
function clientEnvironment(): Environment {
  const names = [
    "PATH",
    "HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
  ];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
