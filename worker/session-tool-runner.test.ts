import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../test/eventually.ts";
import { apiClient, statusOf } from "./api-client.ts";
import { Journal } from "./journal.ts";
import { SessionToolRunner, type SessionToolRunnerOptions } from "./session-tool-runner.ts";
import { ContractServer, failure } from "./testing/contract-server.ts";
import { silentLog, temporaryDirectory } from "./testing/temporary.ts";
import { stopReason, type ToolResult } from "./tools/tool.ts";
import type { ToolRequest } from "./tools/toolset.ts";

const SESSION = "sesn_1";
const SEND = `/${SESSION}/events`;

/** Runs calls of `bash` by a script: the command is the name of what to do. */
class ScriptedTools {
  readonly ran: unknown[] = [];
  readonly stopped: string[] = [];
  #release: (() => void) | null = null;

  has(name: string): boolean {
    return name === "bash";
  }

  async run({ input }: ToolRequest, signal: AbortSignal): Promise<ToolResult> {
    const { command } = input as { readonly command: string };
    this.ran.push(command);
    if (command === "fail") return { text: "it failed", isError: true };
    if (command === "silent") return { text: "", isError: false };
    if (command !== "wait") return { text: `ran ${command}`, isError: false };
    return new Promise((resolve) => {
      this.#release = () => resolve({ text: "waited", isError: false });
      signal.addEventListener("abort", () => {
        this.stopped.push(stopReason(signal));
        resolve({ text: `bash: ${stopReason(signal)}`, isError: true });
      });
    });
  }

  release(): void {
    this.#release?.();
  }
}

async function start(setup: Partial<SessionToolRunnerOptions> & { readonly server?: ContractServer } = {}) {
  const server = setup.server ?? (await ContractServer.start());
  const root = await temporaryDirectory();
  const journal = setup.journal ?? (await openJournal(root, SESSION));
  const tools = new ScriptedTools();
  const stop = new AbortController();
  const waits: number[] = [];
  const runner = new SessionToolRunner({
    client: apiClient({ baseURL: server.url, token: "token-1" }),
    sessionId: SESSION,
    journal,
    log: silentLog,
    maxIdleMs: 0,
    sendWindowMs: () => 60_000,
    drainMs: 5_000,
    mayDeliver: () => true,
    wait: async (ms) => {
      waits.push(ms);
    },
    ...setup,
    tools,
  });
  return { server, root, tools, stop, waits, run: () => keepForTeardown(runner.run(stop.signal), stop) };
}

async function openJournal(root: string, sessionId: string): Promise<Journal> {
  const journal = await Journal.open(root, sessionId);
  onTestFinished(() => journal.close());
  return journal;
}

function keepForTeardown<Value>(run: Promise<Value>, stop: AbortController): Promise<Value> {
  onTestFinished(async () => {
    stop.abort();
    await run.catch(() => {});
  });
  return run;
}

const attached = (server: ContractServer) => eventually(() => expect(server.streamCount(SESSION)).toBe(1));
const answered = (server: ContractServer, count: number) =>
  eventually(() => expect(server.results(SESSION).length).toBe(count));

const call = (command: string, more: Readonly<Record<string, unknown>> = {}) => ({
  type: "agent.tool_use",
  name: "bash",
  input: { command },
  ...more,
});
const idle = (type: string) => ({ type: "session.status_idle", stop_reason: { type } });

describe("running calls", () => {
  it("writes the server's trace of a call into its log, and leaves it out where there is none", async () => {
    const logged: unknown[] = [];
    const { server, run } = await start({
      log: { ...silentLog, info: (message, fields) => logged.push([message, fields?.["call"], fields?.["trace"]]) },
    });
    const traced = server.append(SESSION, call("one", { trace_id: "1-5759e988-bd862e3fe1be46a994272793" }));
    const untraced = server.append(SESSION, call("two"));
    void run();
    await answered(server, 2);
    expect(logged).toEqual([
      ["ran a tool", traced.id, "1-5759e988-bd862e3fe1be46a994272793"],
      ["ran a tool", untraced.id, undefined],
    ]);
  });

  it("opens the stream, then reads all pages of the history, then acts", async () => {
    const { server, tools, run } = await start();
    server.pageSize = 2;
    const first = server.append(SESSION, call("one"));
    const second = server.append(SESSION, call("two"));
    server.append(SESSION, { type: "user.tool_result", tool_use_id: first.id });
    void run();
    await answered(server, 2);
    expect(tools.ran).toEqual(["two"]);
    expect(server.calls()).toEqual([
      "GET /v1/sessions/sesn_1/events/stream",
      "GET /v1/sessions/sesn_1/events",
      "GET /v1/sessions/sesn_1/events",
      "POST /v1/sessions/sesn_1/events",
    ]);
    expect(server.requests[1]?.query.get("limit")).toBe("1000");
    expect(server.requests[2]?.query.get("page")).toBe("2");
    expect(server.requests[3]?.body).toEqual({
      events: [
        {
          type: "user.tool_result",
          tool_use_id: second.id,
          is_error: false,
          content: [{ type: "text", text: "ran two" }],
        },
      ],
    });
    for (const request of server.requests) expect(request.headers.authorization).toBe("Bearer token-1");
  });

  it("answers errors as errors and gives silence a text", async () => {
    const { server, run } = await start();
    server.append(SESSION, call("fail"));
    server.append(SESSION, call("silent"));
    void run();
    await answered(server, 2);
    expect(server.results(SESSION)).toMatchObject([
      { is_error: true, content: [{ type: "text", text: "it failed" }] },
      { is_error: false, content: [{ type: "text", text: "(no output)" }] },
    ]);
  });

  it("runs what arrives on the stream, one call at a time, each once", async () => {
    const { server, tools, run } = await start();
    void run();
    await attached(server);
    const first = server.append(SESSION, call("wait"));
    server.append(SESSION, call("next"));
    server.append(SESSION, first);
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    tools.release();
    await answered(server, 2);
    expect(tools.ran).toEqual(["wait", "next"]);
  });

  it("leaves calls of others alone", async () => {
    const { server, tools, run } = await start();
    server.append(SESSION, { ...call("x"), name: "web_search" });
    server.append(SESSION, { ...call("x"), type: "agent.custom_tool_use" });
    server.append(SESSION, { ...call("x"), type: "agent.mcp_tool_use", mcp_server_name: "m" });
    server.append(SESSION, call("ours"));
    void run();
    await answered(server, 1);
    expect(tools.ran).toEqual(["ours"]);
  });

  it("holds a call that is asked about until it is allowed, while others run", async () => {
    const { server, tools, run } = await start();
    void run();
    await attached(server);
    const held = server.append(SESSION, call("held", { evaluated_permission: "ask" }));
    const denied = server.append(SESSION, call("denied", { evaluated_permission: "ask" }));
    server.append(SESSION, call("free", { evaluated_permission: "allow" }));
    await answered(server, 1);
    server.append(SESSION, { type: "user.tool_confirmation", tool_use_id: denied.id, result: "deny" });
    server.append(SESSION, { type: "user.tool_confirmation", tool_use_id: held.id, result: "allow" });
    await answered(server, 2);
    expect(tools.ran).toEqual(["free", "held"]);
  });
});

describe("interrupts", () => {
  it("stops a running tool whose call is closed by the server, and sends nothing for it", async () => {
    const { server, tools, run } = await start();
    void run();
    await attached(server);
    const running = server.append(SESSION, call("wait"));
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    server.append(SESSION, { type: "user.tool_result", tool_use_id: running.id, is_error: true });
    server.append(SESSION, call("after"));
    await answered(server, 2);
    expect(tools.stopped).toEqual(["the call was closed"]);
    expect(server.calls().filter((request) => request.startsWith("POST")).length).toBe(1);
  });
});

describe("the connection", () => {
  it("reconnects with a growing pause, reads the history again and runs nothing twice", async () => {
    const { server, tools, run, waits } = await start();
    server.next("/stream", "hang up");
    server.next("/stream", failure(503, "api_error", { "x-should-retry": "false" }));
    server.append(SESSION, call("one"));
    void run();
    await answered(server, 1);
    expect(waits).toEqual([500, 1_000]);
    server.endStreams(SESSION);
    await eventually(() => expect(server.streamCount(SESSION)).toBe(1));
    server.append(SESSION, call("two"));
    await answered(server, 2);
    expect(tools.ran).toEqual(["one", "two"]);
  });

  it("doubles the pause up to ten seconds and starts over after an event", async () => {
    const { server, run, waits } = await start();
    for (let i = 0; i < 7; i += 1)
      server.next("/stream", failure(409, "conflict_error", { "x-should-retry": "false" }));
    void run();
    await attached(server);
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    server.append(SESSION, { type: "session.status_running" });
    server.endStreams(SESSION);
    await eventually(() => expect(waits.length).toBe(8));
    expect(waits[7]).toBe(500);
  });

  it("treats a history that cannot be read like a broken stream", async () => {
    const { server, tools, run } = await start();
    server.append(SESSION, call("one"));
    server.next(`GET /v1/sessions/${SESSION}/events`, failure(500, "api_error", { "x-should-retry": "false" }));
    void run();
    await answered(server, 1);
    expect(tools.ran).toEqual(["one"]);
    expect(server.calls().filter((request) => request.endsWith("/stream")).length).toBe(2);
  });

  it("ends when the server refuses for good", async () => {
    const { server, run } = await start();
    server.next("/stream", failure(401, "authentication_error"));
    expect(await run().catch(statusOf)).toBe(401);
  });
});

describe("sending results", () => {
  it("repeats with a growing pause and does not run the tool again", async () => {
    const { server, tools, run, waits } = await start();
    const retry = { "x-should-retry": "false" };
    for (const status of [500, 429, 408]) server.next(`POST /v1/sessions${SEND}`, failure(status, "api_error", retry));
    server.append(SESSION, call("one"));
    void run();
    await answered(server, 1);
    expect(tools.ran).toEqual(["one"]);
    expect(waits.length).toBe(3);
    for (const [i, base] of [1_000, 2_000, 4_000].entries()) {
      expect(waits[i]).toBeGreaterThan(base * 0.75 - 1);
      expect(waits[i]).toBeLessThanOrEqual(base);
    }
  });

  it("starts over with the history when a result's time is up, and sends it again without running the tool", async () => {
    const { server, tools, run } = await start({ sendWindowMs: () => 0 });
    server.next(`POST /v1/sessions${SEND}`, failure(500, "api_error", { "x-should-retry": "false" }));
    server.append(SESSION, call("one"));
    void run();
    await answered(server, 1);
    expect(tools.ran).toEqual(["one"]);
    expect(server.results(SESSION)).toMatchObject([{ content: [{ text: "ran one" }] }]);
    expect(server.calls().map((request) => request.replace("/v1/sessions/sesn_1", ""))).toEqual([
      "GET /events/stream",
      "GET /events",
      "POST /events",
      "GET /events/stream",
      "GET /events",
      "POST /events",
    ]);
  });

  it.each([[400], [413], [422]])("replaces a result that is refused with %i by a small error", async (status) => {
    const { server, run } = await start();
    server.next(`POST /v1/sessions${SEND}`, failure(status, "invalid_request_error"));
    server.append(SESSION, call("one"));
    void run();
    await answered(server, 1);
    expect(server.results(SESSION)).toMatchObject([
      {
        is_error: true,
        content: [{ text: `The tool has run, but the server refused its result (status ${status}).` }],
      },
    ]);
  });

  it("takes a final 409 as closed by someone else", async () => {
    const { server, run } = await start();
    server.next(`POST /v1/sessions${SEND}`, failure(409, "conflict_error", { "x-should-retry": "false" }));
    server.append(SESSION, call("one"));
    server.append(SESSION, call("two"));
    void run();
    await answered(server, 1);
    expect(server.results(SESSION)).toMatchObject([{ content: [{ text: "ran two" }] }]);
  });
});

describe("recovery", () => {
  it("does not run a call again that an earlier activation began: its effect is unknown", async () => {
    const server = await ContractServer.start();
    const root = await temporaryDirectory();
    const begun = server.append(SESSION, call("begun"));
    await (await openJournal(root, SESSION)).started(begun.id);
    const journal = await openJournal(root, SESSION);
    server.append(SESSION, call("fresh"));

    const { tools, run } = await start({ server, journal });
    void run();
    await answered(server, 2);
    expect(tools.ran).toEqual(["fresh"]);
    const [unknown] = server.results(SESSION);
    expect(unknown).toMatchObject({ tool_use_id: begun.id, is_error: true });
    expect(JSON.stringify(unknown)).toContain("its effect is unknown");
    await eventually(async () => expect((await openJournal(root, SESSION)).interrupted.size).toBe(0));
  });

  it("sends nothing for a begun call that the server has closed meanwhile", async () => {
    const server = await ContractServer.start();
    const root = await temporaryDirectory();
    const begun = server.append(SESSION, call("begun"));
    await (await openJournal(root, SESSION)).started(begun.id);
    server.append(SESSION, { type: "user.tool_result", tool_use_id: begun.id, is_error: true });
    server.append(SESSION, call("fresh"));
    const { tools, run } = await start({ server, journal: await openJournal(root, SESSION) });
    void run();
    await answered(server, 2);
    expect(tools.ran).toEqual(["fresh"]);
    expect(server.calls().filter((request) => request.startsWith("POST")).length).toBe(1);
  });

  it("records the start before the tool runs, and does not run it when it cannot", async () => {
    const order: string[] = [];
    const failing = {
      interrupted: new Set<string>(),
      started: async () => {
        order.push("started");
        throw Object.assign(new Error("full"), { code: "ENOSPC" });
      },
      posted: async () => {},
    };
    const { server, tools, run } = await start({ journal: failing });
    server.append(SESSION, call("one"));
    void run();
    await answered(server, 1);
    expect(order).toEqual(["started"]);
    expect(tools.ran).toEqual([]);
    expect(server.results(SESSION)).toMatchObject([{ is_error: true }]);
  });
});

describe("the end", () => {
  it.each([["session.status_terminated"], ["session.deleted"]])("comes with %s on the stream", async (type) => {
    const { server, tools, run } = await start();
    const end = run();
    await attached(server);
    server.append(SESSION, call("wait"));
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    server.append(SESSION, { type });
    expect(await end).toBe("session_ended");
    expect(tools.stopped).toEqual(["the session has ended"]);
    expect(server.results(SESSION)).toEqual([]);
  });

  it("comes with a terminated session in the history, before any call", async () => {
    const { server, tools, run } = await start();
    server.append(SESSION, call("one"));
    server.append(SESSION, { type: "session.status_terminated" });
    expect(await run()).toBe("session_ended");
    expect(tools.ran).toEqual([]);
  });

  it.each([["end_turn"], ["retries_exhausted"], ["budget_reached"], ["refusal"]])(
    "comes after the idle time that follows %s",
    async (stopReasonType) => {
      const { server, run } = await start({ maxIdleMs: 1 });
      server.append(SESSION, idle(stopReasonType));
      expect(await run()).toBe("idle");
    },
  );

  it("does not come while the session waits for an action", async () => {
    const { server, run } = await start({ maxIdleMs: 1 });
    server.append(SESSION, idle("end_turn"));
    server.append(SESSION, idle("requires_action"));
    let end: string | null = null;
    void run().then((value) => {
      end = value;
    });
    await attached(server);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(end).toBe(null);
    server.append(SESSION, idle("end_turn"));
    await eventually(() => expect(end).toBe("idle"));
  });

  it("does not come while a tool runs", async () => {
    const { server, tools, run } = await start({ maxIdleMs: 1 });
    server.append(SESSION, call("wait"));
    server.append(SESSION, idle("end_turn"));
    const end = run();
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    await new Promise((resolve) => setTimeout(resolve, 50));
    tools.release();
    expect(await end).toBe("idle");
    expect(server.results(SESSION)).toMatchObject([{ content: [{ text: "waited" }] }]);
  });

  it("on a stop answers the running call and leaves the waiting ones open", async () => {
    const { server, tools, stop, run } = await start();
    server.append(SESSION, call("wait"));
    server.append(SESSION, call("never"));
    const end = run();
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    stop.abort();
    expect(await end).toBe("stopped");
    expect(tools.ran).toEqual(["wait"]);
    expect(server.results(SESSION)).toMatchObject([
      { is_error: true, content: [{ text: "bash: the worker is stopping" }] },
    ]);
  });

  it("on a lost lease stops the tool and sends nothing", async () => {
    const { server, tools, stop, run } = await start({ mayDeliver: () => false });
    server.append(SESSION, call("wait"));
    const end = run();
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    stop.abort();
    expect(await end).toBe("stopped");
    expect(tools.stopped).toEqual(["the worker is stopping"]);
    expect(server.results(SESSION)).toEqual([]);
  });

  it("gives up sending when the time for it is over", async () => {
    const { server, tools, stop, run } = await start({
      drainMs: 20,
      wait: (ms) => new Promise((r) => setTimeout(r, ms / 100)),
    });
    server.append(SESSION, call("wait"));
    const end = run();
    await eventually(() => expect(tools.ran).toEqual(["wait"]));
    for (let i = 0; i < 50; i += 1) {
      server.next(`POST /v1/sessions${SEND}`, failure(503, "api_error", { "x-should-retry": "false" }));
    }
    stop.abort();
    expect(await end).toBe("stopped");
    expect(server.results(SESSION)).toEqual([]);
  });
});
