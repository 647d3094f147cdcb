/** Tools that change nothing. */
const LOOKING: ReadonlySet<unknown> = new Set(["read", "glob", "grep"]);

/**
 * What the offline model says as the permission evaluator: looking is allowed, anything else is a person's to decide.
 * Enough to see the policy `auto` at work; it reads no text and so judges nothing.
 */
export function offlineJudgment(envelope: string): string {
  const { call } = JSON.parse(envelope) as { readonly call?: { readonly tool?: unknown } };
  return LOOKING.has(call?.tool) ? '{"permission":"allow"}' : '{"permission":"ask","reason_code":"indeterminate"}';
}
