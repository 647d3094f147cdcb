import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../test/eventually.ts";
import { DiskGuard } from "./disk-guard.ts";
import { temporaryDirectory } from "./testing/temporary.ts";

const MIB = 1024 ** 2;

async function guarded(limitBytes: number) {
  const folder = await temporaryDirectory();
  const full: string[] = [];
  const guard = new DiskGuard({ folder, limitBytes, onFull: (why) => full.push(why) });
  onTestFinished(() => guard.close());
  const put = (name: string, bytes: number) => writeFile(join(folder, name), Buffer.alloc(bytes, 1));
  return { full, put, guard };
}

/** A `du` that says what the test wants, first on the path. */
async function standInDu(script: string): Promise<void> {
  const bin = await temporaryDirectory();
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, "du"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  vi.stubEnv("PATH", `${bin}:${process.env["PATH"]}`);
  onTestFinished(() => void vi.unstubAllEnvs());
}

describe("DiskGuard", () => {
  it("tells of each growth beyond the limit, and not of a folder that stays as it is", async () => {
    const { full, put } = await guarded(MIB);
    await put("first", 2 * MIB);
    await eventually(() => expect(full).toEqual([`the session's folder holds more than ${MIB} bytes`]));
    await put("second", 2 * MIB);
    await eventually(() => expect(full).toHaveLength(2));
  });

  it("counts a folder that it may not look into as full", async () => {
    await standInDu("echo 4 .; echo \"du: cannot read directory './x': Permission denied\" >&2; exit 1");
    const { full } = await guarded(MIB);
    await eventually(() => expect(full[0]).toBe("the session's folder holds a folder whose size cannot be measured"));
  });

  it("believes a total from which a file went while it was counted", async () => {
    await standInDu("echo 2048 .; echo \"du: cannot access './x': No such file or directory\" >&2; exit 1");
    const { full } = await guarded(MIB);
    await eventually(() => expect(full).toEqual([`the session's folder holds more than ${MIB} bytes`]));
  });

  it("says nothing after it was closed", async () => {
    await standInDu("echo 4096 .");
    const { full, guard } = await guarded(MIB);
    const other = await guarded(MIB);
    guard.close();
    await eventually(() => expect(other.full).toHaveLength(1));
    expect(full).toEqual([]);
  });
});
