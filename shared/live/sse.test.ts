import { expect, test } from "vitest";
import { comment, frame, retryHint } from "./sse.ts";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

test("a frame has its position, its name and one line of data (F45)", () => {
  expect(text(frame("agent.message", '{"a":1}', 7))).toBe('id: 7\nevent: agent.message\ndata: {"a":1}\n\n');
  expect(text(frame("event_delta", "{}"))).toBe("event: event_delta\ndata: {}\n\n");
});

test.each(["a\nid: 9", "a\rdata: x"])("a line break in the event name is refused (F19): %j", (broken) => {
  expect(() => frame(broken, "{}")).toThrow("line break");
});

test("line breaks in the data, of any kind, make data lines and never fields (F19)", () => {
  expect(text(frame("agent.tool_use", '{\n"a":1,\r\n"id":2,\r"b":3}', 4))).toBe(
    'id: 4\nevent: agent.tool_use\ndata: {\ndata: "a":1,\ndata: "id":2,\ndata: "b":3}\n\n',
  );
});

test("comments and hints are frames of their own", () => {
  expect(text(comment("keep-alive"))).toBe(": keep-alive\n\n");
  expect(text(retryHint(500))).toBe("retry: 500\n\n");
});
