import { z } from "@hono/zod-openapi";

/** What the evaluator says of one call, as it says it. The codes are the only reasons that ever become public. */
const Answer = z.discriminatedUnion("permission", [
  z.strictObject({ permission: z.literal("allow") }),
  z.strictObject({ permission: z.literal("ask"), reason_code: z.literal("indeterminate") }),
  z.strictObject({ permission: z.literal("deny"), reason_code: z.literal("high_risk") }),
]);
export type Judgment = Readonly<z.infer<typeof Answer>>;

/** Whatever goes wrong with an evaluation, a person is asked. */
export const ASK: Judgment = { permission: "ask", reason_code: "indeterminate" };

/**
 * Reads the evaluator's answer: one JSON object of one of three shapes, nothing before or after it. Null for anything
 * else: an explanation, a code fence, another field, a name given twice (of which a parser would keep only the last).
 * White space that JSON allows around and between its parts is nothing.
 */
export function readJudgment(text: string): Judgment | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const parsed = Answer.safeParse(value);
  if (!parsed.success) {
    return null;
  }
  // No value of a valid answer holds white space, so that what is left must be the object itself.
  return JSON.stringify(value) === text.replace(/[ \t\r\n]+/g, "") ? parsed.data : null;
}
