import { expect, test } from "vitest";
import { publicEvent, splice } from "./event.ts";

test("a payload is shown as it is stored, numbers and all", () => {
  const event = {
    id: "sevt_1",
    type: "agent.tool_use",
    payload: '{"input":{"n":12345678901234567890}}',
    processedAt: new Date(0),
  };
  expect(publicEvent(event)).toBe(
    '{"id":"sevt_1","type":"agent.tool_use","input":{"n":12345678901234567890},"processed_at":"1970-01-01T00:00:00.000Z"}',
  );
});

test("an empty payload leaves no stray comma, and a queued event has no instant", () => {
  expect(publicEvent({ id: "sevt_1", type: "agent.thinking", payload: "{}", processedAt: null })).toBe(
    '{"id":"sevt_1","type":"agent.thinking","processed_at":null}',
  );
});

test("spliced text goes in unchanged behind the plain fields", () => {
  expect(splice({ a: 1, gone: undefined }, { raw: '{"2":1,"1":2}' })).toBe('{"a":1,"raw":{"2":1,"1":2}}');
  expect(splice({})).toBe("{}");
});
