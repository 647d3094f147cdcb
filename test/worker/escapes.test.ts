/**
 * What a hostile session tries, with bash under bubblewrap. Where the attempt could fail for a reason of its own, it is
 * made without a sandbox as well, and succeeds there.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, realpath, stat, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { DiskGuard } from "../../worker/disk-guard.ts";
import { bwrapLauncher } from "../../worker/sandbox/bwrap-launcher.ts";
import type { Launcher, Sandbox } from "../../worker/sandbox/launcher.ts";
import { DEFAULT_LIMITS, type Limits } from "../../worker/sandbox/limits.ts";
import { processLauncher } from "../../worker/sandbox/process-launcher.ts";
import { Toolset } from "../../worker/tools/toolset.ts";
import { processesOf } from "../e2e/real-server.ts";
import { eventually } from "../eventually.ts";
import { removeFolder } from "../remove-folder.ts";
import { needBwrap } from "./bwrap-here.ts";

const SECRET = "sk-mango-env-the-worker-knows-this";
const MIB = 1024 ** 2;
const signal = new AbortController().signal;

let root: string;
let worker: ChildProcess;
const sessions: Session[] = [];
beforeEach(async (context) => {
  needBwrap(context);
  root = await realpath(await mkdtemp(path.join(tmpdir(), "mango-escapes-")));
  await mkdir(path.join(root, "sesn_2"), { mode: 0o777 });
  await writeFile(path.join(root, "sesn_2", "secret"), SECRET, { mode: 0o666 });
  await mkdir(path.join(root, ".journal"), { mode: 0o777 });
  await writeFile(path.join(root, ".journal", "sesn_1.jsonl"), SECRET, { mode: 0o666 });
  // A worker or a server on the same host: of the same user, with a key where any process's lies.
  worker = spawn("/bin/sleep", ["600"], { env: { MANGO_ENVIRONMENT_KEY: SECRET }, stdio: "ignore" });
});
afterEach(async () => {
  worker?.kill("SIGKILL");
  // Before their folders: what a session started would write into them.
  await Promise.all(sessions.splice(0).map((session) => session.close()));
  if (root !== undefined) await removeFolder(root);
});

interface Session {
  readonly sandbox: Sandbox;
  readonly tools: Toolset;
  readonly folder: string;
  bash(command: string, timeout_ms?: number): Promise<{ readonly text: string; readonly isError: boolean }>;
  call(name: string, input: object): Promise<{ readonly text: string; readonly isError: boolean }>;
  close(): Promise<void>;
}

interface Wanted {
  readonly limits?: Partial<Limits>;
  readonly network?: "none" | "host";
  readonly launcher?: Launcher;
  readonly sessionId?: string;
}

async function enter({ limits, network = "none", launcher, sessionId = "sesn_1" }: Wanted = {}): Promise<Session> {
  const folder = path.join(root, sessionId);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const inside = launcher ?? bwrapLauncher({ limits: { ...DEFAULT_LIMITS, ...limits }, network });
  const sandbox = await inside.enter({ sessionId, folder });
  const tools = await Toolset.open(sandbox, { PATH: "/usr/bin:/bin" });
  const call = (name: string, input: object) => tools.run({ name, input, idempotencyKey: null }, signal);
  const close = async () => {
    tools.close();
    await sandbox.close();
  };
  const session: Session = {
    sandbox,
    tools,
    folder,
    call,
    close,
    bash: (command, timeout_ms) => call("bash", { command, ...(timeout_ms === undefined ? {} : { timeout_ms }) }),
  };
  sessions.push(session);
  return session;
}

/** The attempt as it ends in a sandbox, after it was seen to succeed without one. */
async function attempt(command: string, succeeds: (text: string) => boolean): Promise<string> {
  const free = await enter({ launcher: processLauncher, sessionId: "sesn_free" });
  expect(succeeds((await free.bash(command)).text)).toBe(true);
  return (await (await enter()).bash(command)).text;
}
const showsSecret = (text: string) => text.includes(SECRET);

describe("files", () => {
  test.each([
    ["an absolute path", () => `cat ${root}/sesn_2/secret`],
    ["..", () => "cat ../sesn_2/secret"],
    ["a link", () => `ln -sfn ${root} out; cat out/sesn_2/secret`],
    ["the worker's journal", () => `cat ${root}/.journal/*`],
    ["a search", () => `find ${root} -name secret -exec cat {} +`],
    [
      "another process's root and folder",
      () => `cat /proc/[0-9]*/root${root}/sesn_2/secret /proc/[0-9]*/cwd/sesn_2/secret`,
    ],
  ])("bash does not reach another session by %s", async (_, command) => {
    expect(await attempt(command(), showsSecret)).not.toContain(SECRET);
  });

  test("the file tools neither follow links nor .. out, nor where a link is swapped in while they work", async () => {
    const { bash, call } = await enter();
    await bash(`ln -s ${root}/sesn_2 out; ln -s ${root}/sesn_2/secret one; mkdir real; echo mine > real/secret`);
    for (const file_path of ["out/secret", "one", "../sesn_2/secret", `${root}/sesn_2/secret`]) {
      expect(await call("read", { file_path })).toMatchObject({ isError: true });
      expect(await call("write", { file_path, content: "overwritten" })).toMatchObject({ isError: true });
    }
    expect((await call("grep", { pattern: "sk-", path: "." })).text).toBe("no matches");
    expect((await call("glob", { pattern: "**/*secret*" })).text).toBe("/workspace/real/secret");

    await bash(
      `(while :; do ln -sfn ${root}/sesn_2 swap.new; mv -T swap.new swap; rm swap; mkdir swap; echo mine > swap/secret; ` +
        "rm -r swap; done) >/dev/null 2>&1 &",
    );
    const seen = new Set<string>();
    for (let round = 0; round < 300; round += 1) {
      seen.add((await call("read", { file_path: "swap/secret" })).text);
      await call("write", { file_path: "swap/written", content: "x" });
    }
    expect([...seen].join("\n")).not.toContain(SECRET);
    expect(await readdir(path.join(root, "sesn_2"))).toEqual(["secret"]);
  });

  test("the system is read-only, and the worker's own files are not there", async () => {
    const { bash } = await enter();
    for (const target of ["/usr/x", "/etc/x", "/x", "/dev/x", "/bin/x", "/opt/x", "/run/x"]) {
      expect(await bash(`touch ${target}`)).toMatchObject({ isError: true });
    }
    expect((await bash("find / -xdev -name secret -o -xdev -name '*.jsonl' -o -xdev -name '*.ts'")).text).toBe("");
    expect((await bash("ls -A /opt /home /root /srv /var/lib /sys 2>/dev/null; echo $?")).text).toBe("2");
    expect(
      (await bash("cat /etc/shadow /etc/hostname /etc/gitconfig 2>&1; true")).text.match(/No such file/g),
    ).toHaveLength(3);
  });
});

describe("processes", () => {
  test("nobody else's environment, arguments or memory is in /proc", async () => {
    const look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; ls /proc";
    expect(await attempt(look, showsSecret)).not.toContain(SECRET);
    const { bash } = await enter();
    const reached = await bash(`kill -0 ${worker.pid}; cat /proc/${worker.pid}/mem; ls /proc/${process.pid}`);
    expect(reached.isError).toBe(true);
    expect((await bash("ls /proc | grep -c '^[0-9]'")).text).toMatch(/^[1-9]$/);
    expect(worker.exitCode).toBe(null);
  });

  test("there are no privileges to gain, and no namespaces to gain them in", async () => {
    const { bash } = await enter();
    const status = (await bash("grep -E 'NoNewPrivs|CapEff|CapPrm|CapBnd' /proc/self/status")).text;
    expect(status.replaceAll("\t", " ").split("\n")).toEqual([
      "CapPrm: 0000000000000000",
      "CapEff: 0000000000000000",
      "CapBnd: 0000000000000000",
      "NoNewPrivs: 1",
    ]);
    for (const command of ["unshare -Ur true", "unshare -m true", "mount -t tmpfs none /tmp", "chroot / true"]) {
      expect(await bash(command)).toMatchObject({ isError: true });
    }
    expect((await bash("id -u; whoami")).text).toBe("1000\nmango");
  });

  test("a fork bomb stays within its limit, leaves other sessions alone, and ends with its command", async () => {
    const bomber = await enter({ limits: { processes: 64 } });
    const other = await enter({ sessionId: "sesn_3" });
    const mark = `mango-bomb-${process.pid}`;
    const bomb = `bomb() { (exec -a ${mark} sleep 60) & bomb | bomb & }; bomb; wait; sleep 60`;
    const exploding = bomber.bash(bomb, 8_000);
    await eventually(async () => expect((await processesOf(mark)).length).toBeGreaterThan(5));
    expect((await other.bash("echo $((6 * 7)); ls /proc | grep -c '^[0-9]'")).text).toMatch(/^42\n[1-9]$/);
    expect((await processesOf(mark)).length).toBeLessThanOrEqual(64);
    expect((await exploding).isError).toBe(true);
    await eventually(async () => expect(await processesOf(mark)).toEqual([]));
    expect((await bomber.bash("echo alive")).text).toBe("alive");
  });

  test.each([
    ["setsid", (mark: string) => `setsid bash -c 'exec -a ${mark} sleep 600' >/dev/null 2>&1 &`],
    ["nohup", (mark: string) => `nohup bash -c 'exec -a ${mark} sleep 600' >/dev/null 2>&1 & disown`],
    [
      "a double fork that ignores signals",
      (mark: string) =>
        `bash -c "trap '' TERM HUP INT; (setsid bash -c 'exec -a ${mark} sleep 600' &) &" >/dev/null 2>&1 </dev/null`,
    ],
  ])("a daemon by %s runs until the shell is stopped, and no longer", async (kind, command) => {
    const mark = `mango-daemon-${kind.replaceAll(" ", "-")}-${process.pid}`;
    const running = async () => (await processesOf(mark)).filter((found) => found.command.startsWith(mark)).length;
    const session = await enter();
    await session.bash(command(mark));
    await eventually(async () => expect(await running()).toBe(1));
    expect((await session.bash("echo still here")).text).toBe("still here");
    expect(await running()).toBe(1);
    await session.call("bash", { restart: true });
    await eventually(async () => expect(await running()).toBe(0));

    await session.bash(command(mark));
    await eventually(async () => expect(await running()).toBe(1));
    await session.close();
    await eventually(async () => expect(await running()).toBe(0));
  });
});

describe("the machine's resources", () => {
  test("one file, /tmp and shared memory are bounded", async () => {
    const { bash, folder } = await enter({ limits: { fileBytes: 8 * MIB, tmpBytes: 4 * MIB } });
    await bash("head -c 32M /dev/zero > big");
    expect((await stat(path.join(folder, "big"))).size).toBe(8 * MIB);
    expect((await bash("head -c 8M /dev/zero > /tmp/big; stat -c %s /tmp/big")).text).toMatch(
      new RegExp(`No space left on device\\n${4 * MIB}$`),
    );
    const shared = "for i in 1 2 3 4 5 6 7 8 9; do head -c 8M /dev/zero > /dev/shm/$i; done; du -sk /dev/shm | cut -f1";
    expect((await bash(shared)).text).toMatch(/No space left on device\n65536$/);
  });

  test("a session that fills its folder is stopped, can clean up, and can go on", async () => {
    const session = await enter();
    const why: string[] = [];
    const guard = new DiskGuard({
      folder: session.folder,
      limitBytes: 16 * MIB,
      onFull: (reason) => {
        why.push(reason);
        session.tools.stopPrograms(reason);
      },
    });
    onTestFinished(() => guard.close());
    // Far more than the limit, at a pace that leaves the disk alone.
    const fill = "for i in $(seq 1 600); do head -c 1M /dev/zero > fill-$i; sleep 0.02; done; echo filled";
    expect(await session.bash(fill)).toEqual({
      text: `bash: the session's folder holds more than ${16 * MIB} bytes`,
      isError: true,
    });
    expect(why.length).toBeGreaterThan(0);
    expect((await session.bash("rm fill-*; ls | wc -l")).text).toBe("0");
    expect(existsSync(path.join(session.folder, "fill-1"))).toBe(false);
    expect((await session.bash("echo on > again; sleep 2; cat again")).text).toBe("on");
  });

  test("memory and processor time of a program are bounded", async () => {
    const small = await enter({ limits: { memoryBytes: 64 * MIB } });
    // Added up by the shell: where it is ended, its last words quote the command.
    const grow = "(x=$(head -c 200M /dev/zero | tr '\\0' x); echo grown to $((199 + 1)))";
    expect((await small.bash(grow)).text).not.toContain("grown to 200");
    const { bash } = await enter({ limits: { cpuSeconds: 1 } });
    expect((await bash("(while :; do :; done); echo ended with $?")).text).toMatch(/ended with (137|152)$/);
    expect((await bash("cat /proc/self/oom_score_adj")).text).toBe("1000");
  });

  test("there is no network, unless it was asked for", async () => {
    const server = createServer((socket) => socket.end("reached\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const dial = `cat < /dev/tcp/127.0.0.1/${(server.address() as AddressInfo).port}`;
    expect((await (await enter({ network: "host" })).bash(dial)).text).toBe("reached");
    expect((await (await enter()).bash(dial)).text).toMatch(/Connection refused|Network is unreachable/);
  });
});
