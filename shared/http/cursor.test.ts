import { expect, test } from "vitest";
import { decodeCursor, encodeCursor } from "./cursor.ts";

test("a cursor gives back its position for its own list and filters", () => {
  const cursor = encodeCursor("agents", { archived: false }, ["2026-01-01T00:00:00.000Z", "agent_1"]);
  expect(decodeCursor("agents", { archived: false }, cursor)).toEqual(["2026-01-01T00:00:00.000Z", "agent_1"]);
});

test.each([
  ["another list", "sessions", { archived: false }],
  ["other filters", "agents", { archived: true }],
])("a cursor is refused for %s", (_case, list, filters) => {
  const cursor = encodeCursor("agents", { archived: false }, 1);
  expect(() => decodeCursor(list, filters, cursor)).toThrow("does not belong to this list");
});

test.each(["", "nonsense", "e30", "bnVsbA"])("what is no cursor is refused: %j", (cursor) => {
  expect(() => decodeCursor("agents", {}, cursor)).toThrow("does not belong to this list");
});
