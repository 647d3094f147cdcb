import { expect, test } from "vitest";
import { allowsHost } from "./domain-rule.ts";

test.each([
  [null, null, "a.example", true],
  [["example.com"], null, "example.com", true],
  [["example.com"], null, "docs.example.com", true],
  [["Example.COM."], null, "docs.example.com", true],
  [["docs.example.com"], null, "example.com", false],
  [["example.com"], null, "notexample.com", false],
  [["example.com"], null, "example.com.evil.example", false],
  [[], null, "example.com", false],
  [null, ["example.com"], "example.com", false],
  [null, ["example.com"], "docs.example.com", false],
  [null, ["example.com"], "example.org", true],
  [["example.com"], ["private.example.com"], "private.example.com", false],
])("allowed %j, blocked %j: %s → %s", (allowed, blocked, host, let_through) => {
  expect(allowsHost({ allowed, blocked }, host)).toBe(let_through);
});
