import { expect, test, vi } from "vitest";
import type { Orchestrator } from "../shared/ports/orchestrator.ts";
import { firstNet } from "./first-net.ts";

const warn = vi.fn();
const log = { debug() {}, info() {}, warn, error() {} };
const start = vi.fn<Orchestrator["start"]>();
const send = vi.fn(() => Promise.resolve());
const { orchestrator, settle } = firstNet(
  { start, find: async () => "unknown", release: async () => "released" },
  send,
  log,
);
const EXECUTION = { name: "turn_1-1", input: "{}" };

test("what Step Functions took needs no message", async () => {
  start.mockResolvedValueOnce("started");

  expect(await orchestrator.start(EXECUTION)).toBe("started");
  expect(await orchestrator.release({ taskToken: "t", output: "{}" })).toBe("released");
  await settle();

  expect(send).not.toHaveBeenCalled();
});

test("a throttled start is still the caller's to know, and sends one message at the invocation's end", async () => {
  const throttled = Object.assign(new Error("Rate exceeded"), { name: "ThrottlingException" });
  start.mockRejectedValue(throttled);

  await expect(orchestrator.start(EXECUTION)).rejects.toBe(throttled);
  await expect(orchestrator.start(EXECUTION)).rejects.toBe(throttled);
  expect(send).not.toHaveBeenCalled();
  await settle();
  await settle();

  expect(send).toHaveBeenCalledTimes(1);
});

test("a start that has not come back when the invocation ends sends a message too", async () => {
  send.mockClear();
  const { promise, resolve } = Promise.withResolvers<"started">();
  start.mockReturnValueOnce(promise);

  const started = orchestrator.start(EXECUTION);
  await settle();
  expect(send).toHaveBeenCalledTimes(1);

  resolve("started");
  await started;
  await settle();
  expect(send).toHaveBeenCalledTimes(1);
});

test("a message that cannot be sent fails nobody: the schedule finds the row", async () => {
  start.mockRejectedValueOnce(new Error("no"));
  send.mockRejectedValueOnce(Object.assign(new Error("away"), { name: "TimeoutError" }));

  await expect(orchestrator.start(EXECUTION)).rejects.toThrow("no");
  await settle();

  expect(warn).toHaveBeenCalledWith(expect.stringContaining("schedule"), { error: "TimeoutError" });
});
