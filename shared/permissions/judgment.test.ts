import { expect, test } from "vitest";
import { readJudgment } from "./judgment.ts";

test.each([
  ['{"permission":"allow"}', { permission: "allow" }],
  ['{"permission":"ask","reason_code":"indeterminate"}', { permission: "ask", reason_code: "indeterminate" }],
  ['{"permission":"deny","reason_code":"high_risk"}', { permission: "deny", reason_code: "high_risk" }],
  ['{"reason_code":"high_risk","permission":"deny"}', { permission: "deny", reason_code: "high_risk" }],
  ['{ "permission" : "allow" }\n', { permission: "allow" }],
])("%s is a judgment", (text, judgment) => {
  expect(readJudgment(text)).toEqual(judgment);
});

test.each([
  "",
  "allow",
  '"allow"',
  "null",
  "[]",
  "{}",
  '{"permission":"maybe"}',
  '{"permission":"Allow"}',
  '{"permission":true}',
  '{"permission":["allow"]}',
  '{"permission":"ask"}',
  '{"permission":"deny"}',
  '{"permission":"allow","reason_code":"indeterminate"}',
  '{"permission":"ask","reason_code":"high_risk"}',
  '{"permission":"deny","reason_code":"indeterminate"}',
  '{"permission":"deny","reason_code":"because"}',
  '{"permission":"allow","confidence":1}',
  '[{"permission":"allow"}]',
  '{"permission":"allow"} {"permission":"allow"}',
  'Sure: {"permission":"allow"}',
  '{"permission":"allow"} as asked',
  '```json\n{"permission":"allow"}\n```',
  '{"permission":"allow"',
  '{"permission":"deny","permission":"allow"}',
  '{"permission":"deny","reason_code":"high_risk","permission":"allow"}',
  '{"permission":"all\\u006fw"}',
  '{"result":{"permission":"allow"}}',
  '\u00a0{"permission":"allow"}',
  "[".repeat(6000) + "]".repeat(6000),
])("%j is none", (text) => {
  expect(readJudgment(text)).toBeNull();
});
