import { describe, expect, it } from "vitest";
import { CallBook, type SessionEvent } from "./call-book.ts";

type Draft = { readonly type: string } & Readonly<Record<string, unknown>>;

function bookOf(...events: readonly Draft[]): CallBook {
  const book = new CallBook((name) => name === "bash" || name === "read");
  for (const event of events) book.ingest(event as unknown as SessionEvent);
  return book;
}

const use = (id: string, more: Record<string, unknown> = {}): Draft => ({
  type: "agent.tool_use",
  id,
  name: "bash",
  input: {},
  ...more,
});
const confirm = (id: string, result: string): Draft => ({ type: "user.tool_confirmation", tool_use_id: id, result });
const result = (id: string): Draft => ({ type: "user.tool_result", tool_use_id: id });
const idle = (stop: string): Draft => ({ type: "session.status_idle", stop_reason: { type: stop, event_ids: [] } });

const runnable = (...events: readonly Draft[]) =>
  bookOf(...events)
    .runnable()
    .map((call) => call.id);

it("F04 a call brings the idempotency key that was published with it, or none", () => {
  const book = bookOf(use("a", { idempotency_key: "key-a" }), use("b"), use("c", { idempotency_key: 7 }));
  expect(book.runnable().map(({ idempotencyKey }) => idempotencyKey)).toEqual(["key-a", null, null]);
});

describe("which calls may run", () => {
  it.each<[string, readonly Draft[], readonly string[]]>([
    ["a call without a permission", [use("a")], ["a"]],
    ["an allowed call", [use("a", { evaluated_permission: "allow" })], ["a"]],
    ["a denied call", [use("a", { evaluated_permission: "deny" })], []],
    ["a denied call, whatever is confirmed", [use("a", { evaluated_permission: "deny" }), confirm("a", "allow")], []],
    ["a call to ask about", [use("a", { evaluated_permission: "ask" })], []],
    ["a call with an unknown permission", [use("a", { evaluated_permission: "perhaps" })], []],
    ["an asked and allowed call", [use("a", { evaluated_permission: "ask" }), confirm("a", "allow")], ["a"]],
    ["a confirmation that comes first", [confirm("a", "allow"), use("a", { evaluated_permission: "ask" })], ["a"]],
    ["an asked and denied call", [use("a", { evaluated_permission: "ask" }), confirm("a", "deny")], []],
    ["an unknown verdict", [use("a", { evaluated_permission: "ask" }), confirm("a", "maybe")], []],
    [
      "a denial that is followed by an allow",
      [use("a", { evaluated_permission: "ask" }), confirm("a", "deny"), confirm("a", "allow")],
      [],
    ],
    ["another call's confirmation", [use("a", { evaluated_permission: "ask" }), confirm("b", "allow")], []],
    ["another tool's call", [use("a", { name: "web_search" })], []],
    ["an application's call", [{ ...use("a"), type: "agent.custom_tool_use" }], []],
    ["an MCP call", [{ ...use("a"), type: "agent.mcp_tool_use" }], []],
    ["an answered call", [use("a"), result("a"), use("b")], ["b"]],
    ["an answered call that is shown again", [use("a"), result("a"), use("a")], []],
    ["a call answered by the server", [use("a"), { type: "agent.tool_result", tool_use_id: "a" }], []],
    ["a call shown twice", [use("a"), use("b"), use("a")], ["a", "b"]],
    [
      "a call of a thread that has ended",
      [
        use("a", { session_thread_id: "t1" }),
        use("b", { session_thread_id: "t2" }),
        { type: "session.thread_status_terminated", session_thread_id: "t1" },
      ],
      ["b"],
    ],
    ["any call once the session has ended", [use("a"), { type: "session.status_terminated" }], []],
  ])("%s", (_, events, expected) => {
    expect(runnable(...events)).toEqual(expected);
  });
});

describe("whether the turn is over", () => {
  it.each<[string, readonly Draft[], boolean]>([
    ["not at first", [], false],
    ["idle at the end of a turn", [idle("end_turn")], true],
    ["idle after the retries are spent", [idle("retries_exhausted")], true],
    ["idle for the budget", [idle("budget_reached")], true],
    ["waiting for an action", [idle("requires_action")], false],
    ["running again", [idle("end_turn"), { type: "session.status_running" }], false],
    ["to be retried", [idle("end_turn"), { type: "session.status_rescheduled" }], false],
    ["idle, then an event that says nothing about it", [idle("end_turn"), { type: "session.usage" }], true],
  ])("%s", (_, events, expected) => {
    expect(bookOf(...events).turnOver).toBe(expected);
  });
});
