import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { failure } from "../fake-model/replies.ts";
import { messagesOf, says, userTexts } from "./scripted-model.ts";
import { isIdle, isTurnEnd, isType, message, SessionDriver, textOf } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

let scripted: Target;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startTarget();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const overloaded = (headers: Record<string, string>) => failure(529, "overloaded_error", "Overloaded", headers);
const soon = { "retry-after-ms": "1", "retry-after": "0" };
const refused = () => failure(400, "invalid_request_error", "messages: this will never do");

test("529, then success: the client sees the error, rescheduled, running, and the answer", async () => {
  const provider = await scripted.script(overloaded(soon), says("Here I am."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  const events = await session.list();
  const story = events.map((event) => event.type).filter((type) => !type.startsWith("session.thread_"));
  expect(story).toEqual([
    "user.message",
    "session.status_running",
    "span.model_request_start",
    "span.model_request_end",
    "session.error",
    "session.status_rescheduled",
    "session.status_running",
    "span.model_request_start",
    "agent.message",
    "span.model_request_end",
    "session.usage",
    "session.status_idle",
  ]);
  expect(events.find(isType("session.error"))?.error).toMatchObject({
    type: "model_overloaded_error",
    retry_status: { type: "retrying" },
  });
  const [failed, succeeded] = events.filter(isType("span.model_request_end"));
  const [first, second] = events.filter(isType("span.model_request_start"));
  expect(failed).toMatchObject({ is_error: true, model_request_start_id: first?.id });
  expect(succeeded).toMatchObject({ is_error: false, model_request_start_id: second?.id });
  expect(provider.requests[1]?.body).toBe(provider.requests[0]?.body);
});

test("the thread's own status follows: rescheduled, then running", async () => {
  await scripted.script(overloaded(soon), says("Here I am."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  const statuses = (await session.list())
    .map((event) => event.type)
    .filter((type) => type.startsWith("session.thread_"));
  expect(statuses).toEqual([
    "session.thread_status_running",
    "session.thread_status_rescheduled",
    "session.thread_status_running",
    "session.thread_status_idle",
  ]);
});

test("while it waits for the provider the session says so, and an interrupt ends the wait at once", async () => {
  const provider = await scripted.script(overloaded({ "retry-after": "3600" }));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isType("session.status_rescheduled"));
  expect(await session.status()).toBe("rescheduling");
  await session.send({ type: "user.interrupt" });
  await session.until(isTurnEnd);
  expect(await session.status()).toBe("idle");
  expect(provider.count).toBe(1);
  expect((await session.list()).filter(isType("session.status_idle"))).toHaveLength(1);
});

const errors = [
  ["429", "model_rate_limited_error", failure(429, "rate_limit_error", "Slow down", soon)],
  ["a cut connection", "model_request_failed_error", { steps: [{ cut: true as const }] }],
  ["a server error", "model_request_failed_error", failure(500, "api_error", "Oops", soon)],
] as const;
test.each(errors)("%s is asked again and told as %s", async (_case, type, broken) => {
  await scripted.script(broken, says("Here I am."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  const error = await session.until(isType("session.error"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(error.error).toMatchObject({ type, retry_status: { type: "retrying" } });
  expect(textOf(answer)).toBe("Here I am.");
});

test("400 exhausts the turn, and the next message works and carries the earlier text", async () => {
  const provider = await scripted.script(refused(), says("Better now."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("the first words"));
  const error = await session.until(isType("session.error"));
  const idle = await session.until(isType("session.status_idle"));
  expect(error.error).toMatchObject({ type: "model_request_failed_error", retry_status: { type: "exhausted" } });
  expect(idle.stop_reason).toEqual({ type: "retries_exhausted" });
  expect(await session.status()).toBe("idle");
  expect(provider.count).toBe(1);

  await session.send(message("the second words"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(textOf(answer)).toBe("Better now.");
  expect(userTexts(provider, 1)).toEqual(["the first words", "the second words"]);
});

test("a message queued while the turn fails is stamped, and the model sees it before the next one", async () => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const slowRefusal = { ...refused(), steps: [{ until: gate }, ...refused().steps] };
  const provider = await scripted.script(slowRefusal, says("All of it."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("one"));
  await session.until(isType("span.model_request_start"));
  const [queued] = await session.send(message("two"));
  expect(queued?.processed_at).toBeNull();
  open();
  await session.until(isIdle("retries_exhausted"));
  const stamped = (await session.list()).find((event) => event.id === queued?.id);
  expect(stamped?.processed_at).not.toBeNull();
  expect(provider.count).toBe(1);

  await session.send(message("three"));
  await session.until(isTurnEnd);
  expect(userTexts(provider, 1)).toEqual(["one", "two", "three"]);
  expect(messagesOf(provider, 1).map(({ role }) => role)).not.toContain("assistant");
});

test("a failed first request leaves the session's earlier turns as they were", async () => {
  const provider = await scripted.script(says("First answer."), refused(), says("Third answer."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("one"));
  await session.until(isTurnEnd);
  await session.send(message("two"));
  await session.until(isIdle("retries_exhausted"));
  await session.send(message("three"));
  await session.until(isTurnEnd);
  expect(userTexts(provider, 2)).toEqual(["one", "two", "three"]);
  const assistant = messagesOf(provider, 2).filter(({ role }) => role === "assistant");
  expect(assistant.map(({ content }) => content[0]?.text)).toEqual(["First answer."]);
});

test("no error text of a provider carries our key", async () => {
  await scripted.script(failure(401, "authentication_error", "invalid x-api-key provider-key"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isType("session.status_idle"));
  expect(JSON.stringify(await session.list())).not.toContain("provider-key");
});
