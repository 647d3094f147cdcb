import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { claimDataDir, DataDirError } from "./data-dir.ts";

let dir: string;
beforeEach(async () => {
  dir = path.join(await mkdtemp(path.join(tmpdir(), "mango-claim-")), "data");
});
afterEach(async () => {
  await rm(path.dirname(dir), { recursive: true, force: true });
});

/** Another process that claims the folder and holds it until it is killed. */
async function holder(address: string) {
  const script = `
    import { claimDataDir } from ${JSON.stringify(fileURLToPath(new URL("./data-dir.ts", import.meta.url)))};
    const claim = await claimDataDir(${JSON.stringify(dir)});
    await claim.announce(${JSON.stringify(address)});
    console.log("held");
    setInterval(() => {}, 60_000);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  const kill = async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return { pid: child.pid, kill };
}

describe("claiming a data folder", () => {
  test("creates the folder, and releasing leaves no trace in it", async () => {
    const claim = await claimDataDir(dir);

    await claim.release();

    expect(await readdir(dir)).toEqual([]);
  });

  test("is refused while another server runs on it, naming that one's process and address", async () => {
    const other = await holder("http://127.0.0.1:8787");

    const refused = await claimDataDir(dir).catch((error: unknown) => error);

    expect(refused).toBeInstanceOf(DataDirError);
    expect((refused as Error).message).toContain(`at http://127.0.0.1:8787 (process ${other.pid})`);
    await other.kill();
  });

  test("leaves the running server's claim in place when refused", async () => {
    const other = await holder("http://127.0.0.1:8787");
    await claimDataDir(dir).catch(() => {});

    await expect(claimDataDir(dir)).rejects.toThrow(DataDirError);

    expect(await readdir(dir)).toEqual([`server-${other.pid}.json`]);
    await other.kill();
  });

  test("takes over from a killed server", async () => {
    const other = await holder("http://127.0.0.1:8787");
    await other.kill();

    const claim = await claimDataDir(dir);

    expect(await readdir(dir)).toEqual([`server-${process.pid}.json`]);
    await claim.release();
  });

  test("is not held up by a process that was given a dead server's number", async () => {
    const claim = await claimDataDir(dir);
    await claim.release();
    await writeFile(
      path.join(dir, `server-${process.ppid}.json`),
      JSON.stringify({ pid: process.ppid, started: "then" }),
    );

    await expect(claimDataDir(dir)).resolves.toBeDefined();
  });

  test("says what to do where the folder cannot be made", async () => {
    await writeFile(path.join(path.dirname(dir), "file"), "");

    const refused = claimDataDir(path.join(path.dirname(dir), "file", "data"));

    await expect(refused).rejects.toThrow(/cannot be made \(ENOTDIR\): set MANGO_DATA_DIR to another/);
  });

  test("is refused a second time within one process", async () => {
    const claim = await claimDataDir(dir);

    await expect(claimDataDir(dir)).rejects.toThrow(DataDirError);

    await claim.release();
  });
});
