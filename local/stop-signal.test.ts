import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { onStopSignal } from "./stop-signal.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.removeAllListeners(signal);
});

describe("a request to stop", () => {
  test("that arrives several times is one request", () => {
    const stop = vi.fn();
    onStopSignal(stop);

    process.emit("SIGTERM");
    vi.advanceTimersByTime(1_000);
    process.emit("SIGTERM");
    process.emit("SIGINT");

    expect(stop.mock.calls).toEqual([["SIGTERM"]]);
  });

  test("repeated by somebody who has lost patience ends the process", () => {
    const exit = vi.spyOn(process, "exit").mockReturnValue(undefined as never);
    const stop = vi.fn();
    onStopSignal(stop);

    process.emit("SIGINT");
    vi.advanceTimersByTime(1_001);
    process.emit("SIGINT");

    expect(stop).toHaveBeenCalledTimes(1);
    expect(exit).toHaveBeenCalledExactlyOnceWith(130);
  });
});
