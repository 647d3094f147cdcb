import { expect, test, vi } from "vitest";
import { startScriptedServer, startSilentProvider } from "../e2e/scripted-model.ts";
import { isIdle, isType, message, SessionDriver } from "../e2e/session-driver.ts";

test("an answer that never ends is hung up on a minute before the state gives up, and the turn ends exhausted", async () => {
  const scripted = await startScriptedServer();
  const provider = await startSilentProvider();
  scripted.pointTo(provider.url);
  const timers = vi.spyOn(globalThis, "setTimeout");
  const session = await SessionDriver.open(scripted.server, { deltas: "?event_deltas[]=agent.message" });
  await session.send(message("tell a story"));
  await session.until(isType("event_delta"));

  // The state's 900 seconds without the last minute: that timer goes off now.
  const armed = timers.mock.calls.filter(([, delay]) => Number(delay) > 800_000 && Number(delay) <= 840_000);
  timers.mockRestore();
  expect(armed).toHaveLength(1);
  armed[0]?.[0]();

  await provider.aborted;
  await session.until(isIdle("retries_exhausted"));
  const events = await session.list();
  expect(events.filter(isType("span.model_request_start"))).toHaveLength(1);
  expect(events.filter(isType("span.model_request_end"))).toMatchObject([
    { is_error: true, model_usage: { input_tokens: 11, output_tokens: 0 } },
  ]);
  session.close();
  provider.close();
  await scripted.close();
});
