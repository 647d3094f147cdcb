import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { CRITERIA } from "../../shared/permissions/criteria.ts";
import type { FakeReply } from "../fake-model/replies.ts";
import { type FakeModel, type RecordedRequest, startFakeModel } from "../fake-model/server.ts";
import { calls, reply, resultsOf, resultText, says, textBlock, toolUse } from "./scripted-model.ts";
import { confirmation, isTurnEnd, isType, message, SessionDriver, toolset } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

// The policy auto over HTTP: a Messages endpoint plays the agent's model and the evaluator, a real worker runs calls.
let scripted: Target;
let session: SessionDriver;
let provider: FakeModel | undefined;
beforeAll(async () => {
  scripted = await startTarget({ worker: true });
});
afterEach(async () => {
  session.close();
  await provider?.close();
});
afterAll(() => scripted.close());

const auto = (name: string) => ({ name, permission_policy: { type: "auto" } });
const isEvaluation = (request: RecordedRequest) => JSON.parse(request.body).system === CRITERIA;
const callOf = (request: RecordedRequest) => JSON.parse(JSON.parse(request.body).messages[0].content[0].text).call;

/** The agent's replies in order; the evaluator judges commands by what they hold. */
async function play(...agent: readonly FakeReply[]): Promise<FakeModel> {
  let round = 0;
  provider = await startFakeModel({
    script(request) {
      if (!isEvaluation(request)) return agent[round++];
      const { command } = callOf(request).input as { command: string };
      if (command.includes("secret")) return says('{"permission":"deny","reason_code":"high_risk"}');
      if (command.includes("maybe")) return says('{"permission":"ask","reason_code":"indeterminate"}');
      if (command.includes("prose")) return reply("end_turn", textBlock("I think that is fine."));
      return says('{"permission":"allow"}');
    },
  });
  scripted.pointTo(provider.url);
  session = await SessionDriver.open(scripted.server, { tools: [toolset(auto("bash"))] });
  return provider;
}
const bash = (id: string, command: string) => toolUse(id, "bash", { command });
/** What the worker did: every command of these tests leaves a file. */
const ran = async () =>
  (await readdir(path.join(scripted.server.workspaceRoot, session.id)).catch(() => [] as string[])).sort();

/** The calls that the worker has begun, from its own journal. */
async function begun(): Promise<unknown[]> {
  const journal = path.join(scripted.server.workspaceRoot, ".journal", `${session.id}.jsonl`);
  const lines = (await readFile(journal, "utf8")).trim().split("\n");
  const entries = lines.map((line) => JSON.parse(line) as { call: string; state: string });
  return entries.filter(({ state }) => state === "started").map(({ call }) => call);
}

test("an allowed call runs, a denied one never reaches the worker, an uncertain one waits for a person", async () => {
  const model = await play(
    calls(bash("toolu_1", "touch fine"), bash("toolu_2", "touch secret"), bash("toolu_3", "touch maybe")),
    says("Done."),
  );
  await session.send(message("do three things"));
  const [asked, ...more] = (await session.untilAsked()).filter((use) => use.evaluated_permission === "ask");
  if (asked === undefined) throw new Error("Nobody was asked.");
  expect(more).toEqual([]);
  const uses = (await session.list()).filter(isType("agent.tool_use"));
  expect(
    uses.map(({ input, evaluated_permission, evaluation }) => ({ input, evaluated_permission, evaluation })),
  ).toEqual([
    {
      input: { command: "touch fine" },
      evaluated_permission: "allow",
      evaluation: { type: "auto", evaluated_permission: { type: "allow" } },
    },
    {
      input: { command: "touch secret" },
      evaluated_permission: "deny",
      evaluation: { type: "auto", evaluated_permission: { type: "deny", reason_code: "high_risk" } },
    },
    {
      input: { command: "touch maybe" },
      evaluated_permission: "ask",
      evaluation: { type: "auto", evaluated_permission: { type: "ask", reason_code: "indeterminate" } },
    },
  ]);

  await session.send(confirmation(asked, "allow"));
  await session.until(isTurnEnd);

  expect(await ran()).toEqual(["fine", "maybe"]);
  // The worker writes down what it begins: of the denied call it never did.
  expect(await begun()).toEqual([uses[0]?.id, uses[2]?.id]);
  const agentRequests = model.requests.flatMap((request, n) => (isEvaluation(request) ? [] : [n]));
  const results = resultsOf(model, agentRequests[1] ?? -1);
  expect(results.map((block) => [block.tool_use_id, block.is_error ?? false])).toEqual([
    ["toolu_1", false],
    ["toolu_2", true],
    ["toolu_3", false],
  ]);
  expect(resultText(results[1])).toBe("Permission to use bash has been denied.");
  expect(model.requests.filter(isEvaluation)).toHaveLength(3);
});

test("an evaluator that answers with prose allows nothing", async () => {
  await play(calls(bash("toolu_1", "touch prose")), says("Never mind."));
  await session.send(message("go"));
  const [asked] = await session.untilAsked();
  if (asked === undefined) throw new Error("Nobody was asked.");
  expect(asked.evaluated_permission).toBe("ask");
  await session.send(confirmation(asked, "deny"));
  await session.until(isTurnEnd);
  expect(await ran()).toEqual([]);
});

test("the session pays for its judgments", async () => {
  const model = await play(calls(bash("toolu_1", "touch fine")), says("Done."));
  await session.send(message("go"));
  await session.until(isTurnEnd);
  const { usage } = (await (await scripted.server.request(`/v1/sessions/${session.id}`)).json()) as {
    usage: { input_tokens: number; output_tokens: number };
  };
  expect(model.count).toBe(3);
  expect(usage).toMatchObject({ input_tokens: 33, output_tokens: 21 });
});
