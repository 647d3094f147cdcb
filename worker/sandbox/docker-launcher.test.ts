/**
 * There is no engine here: a stand-in for the `docker` command writes down its arguments and runs the programs on this
 * host, in the folder that the container would have as its workspace. What an engine makes of the arguments is not shown.
 */
import { lstat, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../../test/eventually.ts";
import { temporaryDirectory } from "../testing/temporary.ts";
import { Toolset } from "../tools/toolset.ts";
import { chooseLauncher } from "./choose-launcher.ts";
import { runArguments } from "./docker-arguments.ts";
import { dockerLauncher } from "./docker-launcher.ts";
import { DEFAULT_LIMITS } from "./limits.ts";
import { giveFolder, USER_INSTEAD_OF_ROOT } from "./user-instead-of-root.ts";

const signal = new AbortController().signal;

/** `run` lives until its input closes, `exec` runs in the mounted folder, `rm` ends the container's programs. */
const STAND_IN = `#!/bin/bash
state=$(dirname "$0")
printf '%s\\n' "$(printf '<%s>' "$@")" >> "$state/calls"
case $1 in
  run)
    name=; folder=
    while (($#)); do
      case $1 in
        --name) name=$2 ;;
        type=bind,source=*,target=/workspace) folder=\${1#type=bind,source=}; folder=\${folder%,target=/workspace} ;;
      esac
      shift
    done
    echo "$folder" > "$state/$name.folder"
    echo ready
    exec cat >/dev/null ;;
  exec)
    shift
    while [[ $1 == --* ]]; do
      case $1 in --env) export "$2"; shift 2 ;; --workdir) shift 2 ;; *) shift ;; esac
    done
    name=$1; shift
    cd "$(cat "$state/$name.folder")" || exit 1
    echo $$ >> "$state/$name.pids"
    exec "$@" ;;
  rm)
    name=\${@: -1}
    for pid in $(cat "$state/$name.pids" 2>/dev/null); do kill -9 -- "$pid" 2>/dev/null; done
    rm -f "$state/$name".* ;;
esac
`;

async function standIn() {
  const bin = await temporaryDirectory();
  const docker = join(bin, "docker");
  await writeFile(docker, STAND_IN, { mode: 0o755 });
  const calls = async (verb: string) =>
    (await readFile(join(bin, "calls"), "utf8")).split("\n").filter((line) => line.startsWith(`<${verb}>`));
  return { docker, calls, bin };
}

async function enter() {
  const { docker, calls } = await standIn();
  const folder = await temporaryDirectory();
  const launcher = dockerLauncher({ docker, image: "tools:1", network: "none", limits: DEFAULT_LIMITS });
  const sandbox = await launcher.enter({ sessionId: "sesn_1", folder });
  onTestFinished(() => sandbox.close());
  return { folder, calls, sandbox };
}

describe("runArguments", () => {
  it("make one hardened container", () => {
    const shape = {
      name: "mango-sesn_1-abc",
      image: "tools:1",
      sessionId: "sesn_1",
      folder: "/work, shared/sesn_1",
      readOnly: [{ host: "/srv/mango/worker", inside: "/opt/mango/worker" }],
      user: 1234,
      network: "none" as const,
      limits: {
        cpuSeconds: 60,
        memoryBytes: 1_073_741_824,
        processes: 100,
        fileBytes: 1_000_000,
        tmpBytes: 2_000_000,
        diskBytes: 3_000_000,
      },
    };
    expect(runArguments(shape)).toEqual([
      ...["run", "--interactive", "--rm", "--init", "--name", "mango-sesn_1-abc", "--hostname", "mango"],
      ...["--label", "mango.session=sesn_1", "--network", "none"],
      ...["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"],
      ...["--tmpfs", "/tmp:rw,nosuid,nodev,size=2000000", "--shm-size", "64m", "--user", "1234:1234"],
      ...["--pids-limit", "100", "--memory", "1073741824", "--memory-swap", "1073741824", "--cpus", "2"],
      ...["--ulimit", "cpu=60", "--ulimit", "fsize=1000000", "--ulimit", "core=0"],
      ...["--mount", 'type=bind,"source=/work, shared/sesn_1",target=/workspace'],
      ...["--mount", "type=bind,source=/srv/mango/worker,target=/opt/mango/worker,readonly"],
      ...["--workdir", "/workspace", "tools:1", "/bin/sh", "-c", "echo ready; exec cat >/dev/null"],
    ]);
  });
});

describe("dockerLauncher", () => {
  it("runs one shell in one container, which ends with the sandbox", async () => {
    const { sandbox, calls, folder } = await enter();
    const tools = await Toolset.open(sandbox, { PATH: "/usr/bin:/bin", GREETING: "hello" });
    const run = (command: string) => tools.run({ name: "bash", input: { command }, idempotencyKey: "key-1" }, signal);
    expect(await run("echo $GREETING $MANGO_IDEMPOTENCY_KEY $HOME; pwd; cd /; N=1")).toEqual({
      text: `hello key-1 /workspace\n${folder}`,
      isError: false,
    });
    expect((await run("pwd; echo $N")).text).toBe("/\n1");
    expect(await calls("run")).toHaveLength(1);
    expect(await calls("exec")).toHaveLength(1);
    await sandbox.close();
    expect((await calls("rm")).at(-1)).toMatch(/^<rm><--force><mango-sesn_1-[0-9a-f]{8}>$/);
  });

  it("ends the container with a command that takes too long, and goes on in a new one", async () => {
    const { sandbox, calls } = await enter();
    const tools = await Toolset.open(sandbox, {});
    const run = (input: object) => tools.run({ name: "bash", input, idempotencyKey: null }, signal);
    expect(await run({ command: "sleep 600", timeout_ms: 300 })).toMatchObject({ isError: true });
    await eventually(async () => expect(await calls("rm")).toHaveLength(1));
    expect(await run({ command: "echo again" })).toEqual({ text: "again", isError: false });
    expect(await calls("run")).toHaveLength(2);
  });

  it("keeps the worker's own path, home and keys out of the container", async () => {
    vi.stubEnv("MANGO_ENVIRONMENT_KEY", "sk-secret");
    onTestFinished(() => void vi.unstubAllEnvs());
    const { sandbox, calls } = await enter();
    const started = await sandbox.launch({
      program: "/bin/true",
      args: [],
      env: { PATH: "/w", HOME: "/h", LANG: "C" },
    });
    await started.exited;
    expect((await calls("exec"))[0]).toMatch(
      /^<exec><--interactive><--workdir><\/workspace><--env><LANG=C><--env><HOME=\/workspace><--env><TMPDIR=\/tmp><mango-/,
    );
    expect((await calls("run"))[0]).not.toContain("sk-secret");
  });

  it("does not stay with a container that does not start", async () => {
    const bin = await temporaryDirectory();
    const docker = join(bin, "docker");
    await writeFile(docker, '#!/bin/sh\n[ "$1" = run ] || exit 0\necho "no such image" >&2\nexit 125\n', {
      mode: 0o755,
    });
    const launcher = dockerLauncher({ docker, image: "none:1", network: "none", limits: DEFAULT_LIMITS });
    const folder = await temporaryDirectory();
    await expect(launcher.enter({ sessionId: "sesn_1", folder })).rejects.toThrow("the container did not start");
  });
});

describe("chooseLauncher", () => {
  const choice = { limits: DEFAULT_LIMITS, network: "none", dockerImage: "tools:1" } as const;

  it("refuses the process launcher without leave, and gives it with leave", async () => {
    await expect(chooseLauncher({ ...choice, wanted: "process", allowProcess: false })).rejects.toThrow(
      "MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER=1",
    );
    expect((await chooseLauncher({ ...choice, wanted: "process", allowProcess: true })).name).toBe("process");
  });

  it("does not fall back to the process launcher from one that was asked for", async () => {
    vi.stubEnv("PATH", "/nonexistent");
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(chooseLauncher({ ...choice, wanted: "docker", allowProcess: true })).rejects.toThrow(
      "docker cannot run tools here",
    );
  });
});

describe("giveFolder", () => {
  it.runIf(process.getuid?.() === 0)("hands a folder over once, without following links", async () => {
    const [folder, outside] = [await temporaryDirectory(), await temporaryDirectory()];
    await writeFile(join(folder, "file"), "");
    await symlink(outside, join(folder, "link"));
    await giveFolder(folder, USER_INSTEAD_OF_ROOT);
    expect((await stat(join(folder, "file"))).uid).toBe(USER_INSTEAD_OF_ROOT);
    expect((await lstat(join(folder, "link"))).uid).toBe(USER_INSTEAD_OF_ROOT);
    expect((await stat(outside)).uid).toBe(0);
    await writeFile(join(folder, "later"), "");
    await giveFolder(folder, USER_INSTEAD_OF_ROOT);
    expect((await stat(join(folder, "later"))).uid).toBe(0);
  });
});
