import { afterAll, beforeAll, expect, test } from "vitest";
import { type BlackBox, startTarget, type Target } from "./target.ts";

let target: Target;
let server: BlackBox;
beforeAll(async () => {
  target = await startTarget();
  server = target.server;
  // Nothing is scripted: the model answers by the offline rules.
  await target.script();
});
afterAll(() => target.close());

test("the official client sees running, the request, deltas, the message, its end, and idle last", async () => {
  const agent = await server.client.beta.agents.create({ name: "Echo", model: "offline" });
  const session = await server.client.beta.sessions.create({ agent: agent.id, environment_id: server.environmentId });
  const stream = await server.client.beta.sessions.events.stream(session.id, { event_deltas: ["agent.message"] });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const event of stream) {
      seen.push(event.type);
      if (event.type === "session.status_idle") {
        break;
      }
    }
  })();
  await server.client.beta.sessions.events.send(session.id, {
    events: [{ type: "user.message", content: [{ type: "text", text: "hello" }] }],
  });
  await reading;
  const once = seen.filter((type, index) => type !== seen[index - 1]);
  expect(once).toEqual([
    "user.message",
    "session.status_running",
    "session.thread_status_running",
    "span.model_request_start",
    "event_start",
    "event_delta",
    "agent.message",
    "span.model_request_end",
    "session.thread_status_idle",
    "session.usage",
    "session.status_idle",
  ]);
});
