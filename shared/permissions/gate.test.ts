import { describe, expect, test } from "vitest";
import { deniedText, judge, needsOf } from "./gate.ts";

const tool = { name: "bash", owner: "client_self_hosted", declaration: "{}" } as const;

describe("judge", () => {
  test("a fixed policy decides and is named as the evaluation", () => {
    expect(judge({ ...tool, policy: "always_allow" })).toEqual({
      permission: "allow",
      evaluation: { type: "always_allow" },
    });
    expect(judge({ ...tool, policy: "always_ask" })).toEqual({ permission: "ask", evaluation: { type: "always_ask" } });
  });

  test("a tool that the session does not have is denied before any policy applies", () => {
    expect(judge(undefined)).toEqual({ permission: "deny", evaluation: null });
  });

  test("under auto the judgment decides; without one a person is asked", () => {
    const auto = { ...tool, policy: "auto" } as const;
    expect(judge(auto, { permission: "allow" })).toEqual({
      permission: "allow",
      evaluation: { type: "auto", evaluated_permission: { type: "allow" } },
    });
    expect(judge(auto, { permission: "deny", reason_code: "high_risk" })).toEqual({
      permission: "deny",
      evaluation: { type: "auto", evaluated_permission: { type: "deny", reason_code: "high_risk" } },
    });
    expect(judge(auto)).toEqual({
      permission: "ask",
      evaluation: { type: "auto", evaluated_permission: { type: "ask", reason_code: "indeterminate" } },
    });
  });
});

describe("needsOf", () => {
  test.each([
    ["allow", "client_self_hosted", ["result"]],
    ["ask", "client_self_hosted", ["confirmation", "result"]],
    ["deny", "client_self_hosted", []],
    ["allow", "client_custom", ["result"]],
    ["allow", "platform_managed", []],
    ["ask", "platform_managed", ["confirmation"]],
    ["deny", "none", []],
  ] as const)("%s for %s needs %j", (permission, owner, needs) => {
    expect(needsOf(permission, owner)).toEqual(needs);
  });
});

test("a denied call is answered in the words of the contract, with the person's own words behind", () => {
  expect(deniedText("bash", null)).toBe("Permission to use bash has been denied.");
  expect(deniedText("bash", "Not on a Friday.")).toBe("Permission to use bash has been denied. Not on a Friday.");
});
