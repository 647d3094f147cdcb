import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { VERSIONS } from "../contract/sdk-clients.ts";
import { processesOf } from "../e2e/real-server.ts";
import {
  calls,
  messagesOf,
  resultsOf,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  toolUse,
} from "../e2e/scripted-model.ts";
import {
  ask,
  confirmation,
  isIdle,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
  toolset,
} from "../e2e/session-driver.ts";
import { eventually } from "../eventually.ts";
import { type RunningWorker, temporaryRoot, WORKER_KINDS } from "./worker-kinds.ts";
import { startWorkerProcess } from "./worker-process.ts";

/** Workers are processes that start and stop; a busy machine is not a failure. */
const PATIENCE = 120_000;
let scripted: ScriptedServer;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterAll(() => scripted.close());

describe.each(VERSIONS)("a launcher on the poller of the official SDK %s", (_, Client) => {
  test("F44 that stops its claim at once, having handed it over, leaves the session to the next worker", {
    timeout: PATIENCE,
  }, async () => {
    await scripted.server.database.pool.query("delete from work_items");
    await scripted.script();
    const session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
    await session.send(message("run `echo handed over`"));
    await session.until(isIdle("requires_action"));
    const { url, environmentId, environmentKey } = scripted.server;
    const client = new Client({ baseURL: url, authToken: environmentKey, logLevel: "off" });
    const claimed: string[] = [];
    for await (const work of client.beta.environments.work.poller({ environmentId, environmentKey, drain: true })) {
      claimed.push(work.data.id);
      break;
    }
    expect(claimed).toEqual([session.id]);
    const place = await temporaryRoot();
    const worker = await startWorkerProcess(scripted.server, { launcher: "process", workspaceRoot: place.root });
    const result = await session.until(isType("user.tool_result"));
    await session.until(isTurnEnd);
    expect(textOf(result)).toBe("handed over");
    session.close();
    await worker.stop();
    await place.remove();
  });
});

describe.each(WORKER_KINDS)("$name", { timeout: PATIENCE }, ({ check, start, stopsCommands }) => {
  let worker: RunningWorker;
  let session: SessionDriver;
  const workers: RunningWorker[] = [];
  beforeEach(async (context) => {
    check?.(context);
    // What an earlier test left open belongs to no one here.
    await scripted.server.database.pool.query("delete from work_items");
    worker = await start(scripted.server);
    workers.push(worker);
  }, PATIENCE);
  afterEach(async () => {
    session?.close();
    await Promise.all(workers.splice(0).map((each) => each.stop()));
  }, PATIENCE);

  const open = async (...configs: readonly object[]) => {
    session = await SessionDriver.open(scripted.server, { tools: [toolset(...configs)] });
    return session;
  };
  const file = (name: string) => worker.fileOf(session.id, name);

  test("runs bash, write, read, edit, glob and grep in the session's folder", async () => {
    const provider = await scripted.script(
      calls(toolUse("toolu_1", "write", { file_path: "sub/poem.txt", content: "roses are red\nviolets are blue\n" })),
      calls(toolUse("toolu_2", "edit", { file_path: "sub/poem.txt", old_string: "red", new_string: "white" })),
      calls(toolUse("toolu_3", "read", { file_path: "sub/poem.txt" })),
      calls(toolUse("toolu_4", "glob", { pattern: "sub/*.txt" })),
      calls(toolUse("toolu_5", "grep", { pattern: "viol.ts", path: "sub" })),
      calls(toolUse("toolu_6", "bash", { command: "cd sub; N=5" })),
      calls(toolUse("toolu_7", "bash", { command: "wc -l < poem.txt; echo $N; (exit 3)" })),
      says("done"),
    );
    await open();
    await session.send(message("write a poem"));
    await session.until(isTurnEnd);
    const results = resultsOf(provider, 7);
    expect(results.map((block) => block.is_error ?? false)).toEqual([false, false, false, false, false, false, true]);
    const [wrote, edited, read, globbed, grepped, changed, ran] = results.map(resultText);
    expect(wrote).toMatch(/^wrote 31 bytes to /);
    expect(edited).toMatch(/^edited .*poem\.txt \(1 replacement\(s\)\)$/);
    expect(read).toBe("roses are white\nviolets are blue\n");
    expect(globbed).toBe(worker.shown(session.id, "sub/poem.txt"));
    expect(grepped?.trim()).toBe(`${worker.shown(session.id, "sub/poem.txt")}:2:violets are blue`);
    expect(changed).toBe("(no output)");
    expect(ran).toBe("2\n5");
    expect(await readFile(file("sub/poem.txt"), "utf8")).toBe("roses are white\nviolets are blue\n");
  });

  test("runs an approved command once, and not before it is approved", async () => {
    await scripted.script();
    await open(ask("bash"));
    await session.send(message("run `echo x >> approved; cat approved`"));
    const [use] = await session.untilAsked();
    if (use === undefined) throw new Error("The idle named nothing.");
    expect(existsSync(file("approved"))).toBe(false);
    await session.send(confirmation(use, "allow"));
    const result = await session.until(isType("user.tool_result"));
    await session.until(isTurnEnd);
    expect(result).toMatchObject({ tool_use_id: use.id, is_error: false });
    expect(textOf(result)).toBe("x");
  });

  test("never runs a denied command, and the turn goes on", async () => {
    const provider = await scripted.script(
      calls(toolUse("toolu_1", "bash", { command: "touch denied" }), toolUse("toolu_2", "bash", { command: "pwd" })),
      says("Without it."),
    );
    await open(ask("bash"));
    await session.send(message("go"));
    const [denied, allowed] = await session.untilAsked();
    if (denied === undefined || allowed === undefined) throw new Error("The idle named too little.");
    // F05: the later call is answered first.
    await session.send(confirmation(allowed, "allow"));
    await session.send(confirmation(denied, "deny", { deny_message: "not now" }));
    await session.until(isTurnEnd);
    expect(resultsOf(provider, 1).map((block) => block.is_error ?? false)).toEqual([true, false]);
    expect(resultText(resultsOf(provider, 1)[0])).toContain("not now");
    expect(existsSync(file("denied"))).toBe(false);
  });

  test("ends the turn on an interrupt while a command runs, and takes the next message", async () => {
    await scripted.script();
    await open();
    const mark = `mango-interrupted-${session.id}`;
    await session.send(message(`run \`touch begun; (exec -a ${mark} sleep ${stopsCommands ? 300 : 4})\``));
    await eventually(() => expect(existsSync(file("begun"))).toBe(true));
    await eventually(async () => expect((await processesOf(mark)).length).toBeGreaterThan(0));
    await session.send({ type: "user.interrupt" });
    await session.until(isTurnEnd);
    await eventually(async () => expect(await processesOf(mark)).toEqual([]));
    // An official worker sends the result that is no longer wanted again and again, for as long as its lease lives, and
    // runs nothing else meanwhile; only the long run waits for that.
    const runs = stopsCommands || process.env["FAULTS"] === "full";
    await session.send(message(runs ? "run `echo next`" : "hello"));
    const isOver = async () => {
      const events = await session.list();
      expect(events.filter(isTurnEnd)).toHaveLength(2);
      return events.filter(isType("user.tool_result"));
    };
    const [closed, next] = await vi.waitFor(isOver, { timeout: 100_000 });
    // The interrupted call has the server's own answer, and no other.
    expect(closed?.is_error).toBe(true);
    expect(next === undefined ? null : textOf(next)).toBe(runs ? "next" : null);
  });

  test("F03 a lease lost to a second worker: the command ran once, one result stands, the session goes on", async () => {
    const provider = await scripted.script(
      calls(toolUse("toolu_1", "bash", { command: "echo x >> effects; sleep 6; echo over" })),
      says("Seen."),
    );
    await open();
    await session.send(message("go"));
    await session.until(isIdle("requires_action"));
    await eventually(() => expect(existsSync(file("effects"))).toBe(true));
    // As if the first worker had been silent for a minute.
    await scripted.server.database.pool.query(
      "update work_items set lease_expires_at = now() - interval '1 s' where lease_expires_at is not null",
    );
    const second = await start(scripted.server);
    workers.push(second);
    await session.until(isTurnEnd);
    const results = (await session.list()).filter(isType("user.tool_result"));
    expect(results).toHaveLength(1);
    expect(results[0]?.is_error).toBe(true);
    expect(resultText(resultsOf(provider, 1)[0])).toBe(textOf(results[0]));
    expect(await readFile(file("effects"), "utf8")).toBe("x\n");
    expect(existsSync(second.fileOf(session.id, "effects"))).toBe(false);

    await session.send(message("once more"));
    await session.until(isTurnEnd);
    expect(messagesOf(provider, 2).at(-1)).toMatchObject({ role: "user" });
  });
});
