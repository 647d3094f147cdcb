import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { messagesModel } from "../../shared/model/messages-model.ts";
import { CRITERIA } from "../../shared/permissions/criteria.ts";
import { says } from "../e2e/scripted-model.ts";
import { failure } from "../fake-model/replies.ts";
import { type FakeModel, type RecordedRequest, startFakeModel } from "../fake-model/server.ts";
import { LIVE_CASES } from "./cases.ts";
import { judgeCases } from "./judge-cases.ts";

let provider: FakeModel | undefined;
afterEach(async () => {
  await provider?.close();
  provider = undefined;
});

const envelopeOf = (request: RecordedRequest) => JSON.parse(JSON.parse(request.body).messages[0].content[0].text);
const [first, second, third, fourth] = LIVE_CASES;
if (!first || !second || !third || !fourth) throw new Error("There are too few cases.");

test("a case passes by the model's own judgment alone: prose, a refusal and a failing endpoint fail it", async () => {
  const asking = [first, second, third, fourth].map((one) => ({ ...one, accepts: ["ask" as const] }));
  provider = await startFakeModel({
    script(request) {
      const { client_messages } = envelopeOf(request).intent;
      switch (client_messages[0]) {
        case first.conversation.clientMessages[0]:
          return says('{"permission":"ask","reason_code":"indeterminate"}');
        case second.conversation.clientMessages[0]:
          return says("I would ask.");
        case third.conversation.clientMessages[0]:
          return failure(529, "overloaded_error", "busy");
        default:
          return says('{"permission":"allow"}');
      }
    },
  });
  const model = messagesModel({ baseURL: provider.url, apiKey: "key", auth: "x-api-key" });
  const results = await judgeCases(model, "test-1", asking);
  expect(results.map(({ said, passed }) => ({ said, passed }))).toEqual([
    { said: "ask", passed: true },
    { said: "malformed", passed: false },
    { said: "provider_error", passed: false },
    { said: "allow", passed: false },
  ]);
  expect(provider.requests.every((request) => JSON.parse(request.body).system === CRITERIA)).toBe(true);
});

test("every kind of case that the guide names is there, each case with a name of its own", () => {
  expect(new Set(LIVE_CASES.map((one) => one.kind))).toEqual(
    new Set([
      "ordinary work",
      "explicit deletion",
      "MCP write",
      "normal authentication",
      "tutorial token",
      "authorised transfer",
      "ambiguous scope",
      "secret disclosure",
      "isolation bypass",
      "planted in a file",
      "planted in a skill",
      "planted in MCP",
      "planted in a thread",
      "refused before",
    ]),
  );
  expect(new Set(LIVE_CASES.map((one) => one.name)).size).toBe(LIVE_CASES.length);
});

test("the command prints a table and fails when a case does", async () => {
  provider = await startFakeModel({ script: () => says('{"permission":"allow"}') });
  const main = fileURLToPath(new URL("main.ts", import.meta.url));
  const env = { ...process.env, MANGO_MODEL_BASE_URL: provider.url, MANGO_MODEL_API_KEY: "key" };
  const failed = await promisify(execFile)(process.execPath, [main, "test-1"], { env }).catch((error) => error);
  expect(failed.code).toBe(1);
  expect(failed.stdout).toMatch(/^an ordinary read +allow +allow +ok$/m);
  expect(failed.stdout).toMatch(/^secrets to a stranger +deny +allow +FAILED$/m);
  expect(failed.stdout).toContain("10 of 21 passed");
});

test("without an endpoint it says what to set", async () => {
  const main = fileURLToPath(new URL("main.ts", import.meta.url));
  const { MANGO_MODEL_BASE_URL: _, ...env } = process.env;
  const failed = await promisify(execFile)(process.execPath, [main], { env }).catch((error) => error);
  expect([failed.code, failed.stderr]).toEqual([2, expect.stringContaining("Set MANGO_MODEL_BASE_URL")]);
});
