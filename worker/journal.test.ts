import { appendFile, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { Journal } from "./journal.ts";
import { temporaryDirectory } from "./testing/temporary.ts";

/** Closed only when the test ends: until then it is left as a crash would leave it. */
async function open(root: string, sessionId: string): Promise<Journal> {
  const journal = await Journal.open(root, sessionId);
  onTestFinished(() => journal.close().catch(() => {}));
  return journal;
}

const path = (root: string) => join(root, ".journal", "sesn_1.jsonl");

describe("Journal", () => {
  it("knows after a crash which calls were begun and not answered", async () => {
    const root = await temporaryDirectory();
    const journal = await open(root, "sesn_1");
    await journal.started("sevt_1");
    await journal.posted("sevt_1");
    await journal.started("sevt_2");
    // No close: the process has died here.
    const after = await open(root, "sesn_1");
    expect([...after.interrupted]).toEqual(["sevt_2"]);
  });

  it("does not count its own calls as interrupted", async () => {
    const journal = await open(await temporaryDirectory(), "sesn_1");
    await journal.started("sevt_1");
    expect(journal.interrupted.size).toBe(0);
  });

  it("has `started` in the file when the promise resolves", async () => {
    const root = await temporaryDirectory();
    const journal = await open(root, "sesn_1");
    await journal.started("sevt_1");
    expect(JSON.parse(await readFile(path(root), "utf8"))).toMatchObject({ call: "sevt_1", state: "started" });
  });

  it("ignores a line that was cut short, and writes on a line of its own after it", async () => {
    const root = await temporaryDirectory();
    const journal = await open(root, "sesn_1");
    await journal.started("sevt_1");
    await appendFile(path(root), '{"call":"sevt_2","sta');
    const second = await open(root, "sesn_1");
    expect([...second.interrupted]).toEqual(["sevt_1"]);
    await second.started("sevt_3");
    const third = await open(root, "sesn_1");
    expect([...third.interrupted]).toEqual(["sevt_1", "sevt_3"]);
  });

  it("forgets an interrupted call once its answer is accepted", async () => {
    const root = await temporaryDirectory();
    await (await open(root, "sesn_1")).started("sevt_1");
    const second = await open(root, "sesn_1");
    await second.posted("sevt_1");
    expect((await open(root, "sesn_1")).interrupted.size).toBe(0);
  });

  it("removes its file when all is settled, and keeps it otherwise", async () => {
    const root = await temporaryDirectory();
    const settled = await open(root, "sesn_1");
    await settled.started("sevt_1");
    await settled.posted("sevt_1");
    await settled.close();
    await expect(stat(path(root))).rejects.toThrow("ENOENT");

    const kept = await open(root, "sesn_1");
    await kept.started("sevt_2");
    await kept.close();
    expect([...(await open(root, "sesn_1")).interrupted]).toEqual(["sevt_2"]);
  });

  it("is readable by its owner alone and keeps sessions apart", async () => {
    const root = await temporaryDirectory();
    await (await open(root, "sesn_1")).started("sevt_1");
    expect((await stat(path(root))).mode & 0o777).toBe(0o600);
    expect((await stat(join(root, ".journal"))).mode & 0o777).toBe(0o700);
    expect((await open(root, "sesn_2")).interrupted.size).toBe(0);
  });
});
