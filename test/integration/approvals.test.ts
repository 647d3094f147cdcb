import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  calls,
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
  toolResult,
  toolset,
} from "../e2e/session-driver.ts";

// No worker here: the tests answer in its place, so that every order of answers can be had.
let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const bash = (id: string, command: string) => toolUse(id, "bash", { command });

async function askedFor(...commands: readonly string[]) {
  const uses = commands.map((command, index) => bash(`toolu_${index}`, command));
  const provider = await scripted.script(calls(...uses), says("The end."));
  session = await SessionDriver.open(scripted.server, { tools: [toolset(ask("bash"))] });
  await session.send(message("go"));
  const asked = await session.untilAsked();
  const use = (index: number) => {
    const event = asked.find(({ input }) => input?.["command"] === commands[index]);
    if (event === undefined) throw new Error(`The idle does not name the call of ${commands[index]}.`);
    return event;
  };
  return { provider, asked, use };
}

test("a call under always_ask parks the turn, and the idle names it", async () => {
  const { asked, provider } = await askedFor("echo hi");
  expect(asked).toMatchObject([
    {
      type: "agent.tool_use",
      name: "bash",
      input: { command: "echo hi" },
      evaluated_permission: "ask",
      evaluation: { type: "always_ask" },
    },
  ]);
  const events = await session.list();
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle", stop_reason: { type: "requires_action" } });
  expect(await session.status()).toBe("idle");
  expect(provider.count).toBe(1);
});

test("F41: a result before the confirmation is refused and changes nothing; afterwards it completes the turn", async () => {
  const { use, provider } = await askedFor("echo hi");
  const before = await session.list();
  const early = await session.post(toolResult(use(0), "hi"));
  expect(early.status).toBe(400);
  expect(early.error?.type).toBe("invalid_request_error");
  expect(await session.list()).toEqual(before);

  await session.send(confirmation(use(0), "allow"));
  await session.send(toolResult(use(0), "hi"));
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1)).toMatchObject([{ tool_use_id: "toolu_0" }]);
  expect(resultText(resultsOf(provider, 1)[0])).toBe("hi");
});

test("after allow, which names the call and no thread (F42), the call still waits for its result", async () => {
  const { use, provider } = await askedFor("echo hi");
  const [allowed] = await session.send(confirmation(use(0), "allow"));
  expect(allowed).toMatchObject({ type: "user.tool_confirmation", tool_use_id: use(0).id, result: "allow" });
  const idles = (await session.list()).filter(isType("session.status_idle"));
  expect(idles.at(-1)?.stop_reason).toEqual({ type: "requires_action", event_ids: [use(0).id] });
  expect(await session.status()).toBe("idle");
  expect(provider.count).toBe(1);
  await session.send(toolResult(use(0), "hi"));
  await session.until(isTurnEnd);
});

test("a confirmation and the result may come in one request", async () => {
  const { use, provider } = await askedFor("echo hi");
  await session.send(confirmation(use(0), "allow"), toolResult(use(0), "hi"));
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1).map(resultText)).toEqual(["hi"]);
});

test("deny: the server makes the error result, the model learns the reason and goes on", async () => {
  const { use, provider } = await askedFor("rm -rf /");
  await session.send(confirmation(use(0), "deny", { deny_message: "Not on my machine." }));
  const result = await session.until(isType("agent.tool_result"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(result).toMatchObject({ tool_use_id: use(0).id, is_error: true });
  expect(textOf(result)).toContain("Not on my machine.");
  expect(textOf(answer)).toBe("The end.");
  expect(resultsOf(provider, 1)).toMatchObject([{ tool_use_id: "toolu_0", is_error: true }]);
  expect(resultText(resultsOf(provider, 1)[0])).toContain("Not on my machine.");
});

test("a worker's result for a denied call is refused", async () => {
  const { use } = await askedFor("rm -rf /");
  await session.send(confirmation(use(0), "deny"));
  await session.until(isTurnEnd);
  const late = await session.post(toolResult(use(0), "removed"));
  expect(late.status).toBe(409);
  expect(late.headers.get("x-should-retry")).toBe("false");
});

test("deny_message together with allow is refused and changes nothing", async () => {
  const { use } = await askedFor("echo hi");
  const before = await session.list();
  const answer = await session.post(confirmation(use(0), "allow", { deny_message: "No." }));
  expect(answer.status).toBe(400);
  expect(answer.error?.type).toBe("invalid_request_error");
  expect(answer.error?.message).toContain("deny_message");
  expect(await session.list()).toEqual(before);
  await session.send(confirmation(use(0), "deny"));
  await session.until(isTurnEnd);
});

test("a second confirmation is a conflict that no client repeats, while parked and afterwards", async () => {
  const { use } = await askedFor("echo hi");
  await session.send(confirmation(use(0), "allow"));
  const again = await session.post(confirmation(use(0), "allow"));
  const other = await session.post(confirmation(use(0), "deny"));
  await session.send(toolResult(use(0), "hi"));
  await session.until(isTurnEnd);
  const late = await session.post(confirmation(use(0), "deny"));
  for (const answer of [again, other, late]) {
    expect(answer.status).toBe(409);
    expect(answer.error?.type).toBe("conflict_error");
    expect(answer.headers.get("x-should-retry")).toBe("false");
  }
  expect((await session.list()).filter(isType("user.tool_confirmation"))).toHaveLength(1);
});

test("two confirmations of one call in one request are refused together", async () => {
  const { use } = await askedFor("echo hi");
  const before = await session.list();
  const answer = await session.post(confirmation(use(0), "allow"), confirmation(use(0), "deny"));
  expect(answer.status).toBe(409);
  expect(await session.list()).toEqual(before);
});

test("an unknown tool_use_id is not found, and the events beside it are not stored", async () => {
  const { use } = await askedFor("echo hi");
  const before = await session.list();
  const unknown = { type: "user.tool_confirmation", tool_use_id: "sevt_00000000000000000000000000", result: "allow" };
  const answer = await session.post(confirmation(use(0), "allow"), unknown);
  expect(answer.status).toBe(404);
  expect(answer.error?.type).toBe("not_found_error");
  expect(answer.error?.message).toContain("sevt_00000000000000000000000000");
  expect(await session.list()).toEqual(before);
});

test("F05: two asks answered in the other order; each answer reaches its own call", async () => {
  const { use, provider, asked } = await askedFor("echo A", "echo B");
  expect(asked).toHaveLength(2);
  await session.send(confirmation(use(1), "allow"));
  await session.send(confirmation(use(0), "deny", { deny_message: "Not A." }));
  const remaining = await session.until((event) => event.stop_reason?.event_ids?.length === 1);
  expect(remaining.stop_reason).toEqual({ type: "requires_action", event_ids: [use(1).id] });
  await session.send(toolResult(use(1), "B ran"));
  await session.until(isTurnEnd);
  const [first, second] = resultsOf(provider, 1);
  expect([first?.tool_use_id, first?.is_error]).toEqual(["toolu_0", true]);
  expect(resultText(first)).toContain("Not A.");
  expect([second?.tool_use_id, second?.is_error ?? false]).toEqual(["toolu_1", false]);
  expect(resultText(second)).toBe("B ran");
  expect(provider.count).toBe(2);
});

test("a partial answer says idle again with what is left, and runs only when all is answered", async () => {
  const { use } = await askedFor("echo A", "echo B");
  await session.send(confirmation(use(0), "deny"));
  const idle = await session.until(isIdle("requires_action"));
  expect(idle.stop_reason?.event_ids).toEqual([use(1).id]);
  const running = (await session.list()).filter(isType("session.status_running"));
  expect(running).toHaveLength(1);
  await session.send(confirmation(use(1), "deny"));
  await session.until(isTurnEnd);
  expect((await session.list()).filter(isType("session.status_running"))).toHaveLength(2);
});

test("F08: a message sent while the turn waits is queued behind it, never a second turn beside", async () => {
  const { use, provider } = await askedFor("echo hi");
  const [queued] = await session.send(message("and then?"));
  expect(queued?.processed_at).toBeNull();
  expect(await session.status()).toBe("idle");
  expect(provider.count).toBe(1);
  const { rows } = await scripted.server.database.pool.query("select id from turns where session_id = $1", [
    session.id,
  ]);
  expect(rows).toHaveLength(1);

  await session.send(confirmation(use(0), "allow"), toolResult(use(0), "hi"));
  await session.until(isTurnEnd);
  const events = await session.list();
  const position = (matches: (event: (typeof events)[number]) => boolean) => events.findIndex(matches);
  expect(events.filter(isTurnEnd)).toHaveLength(1);
  expect(events.find((event) => event.id === queued?.id)?.processed_at).not.toBeNull();
  expect(events.filter(isType("agent.message"))).toHaveLength(2);
  expect(position((event) => textOf(event) === "The end.")).toBeLessThan(position((event) => event.id === queued?.id));
  expect(provider.count).toBe(3);
});
