import type { Evaluation } from "../contract/events.ts";
import { ASK, type Judgment } from "./judgment.ts";
import type { PinnedTool, ToolOwner } from "./runtime.ts";

/** What the policy says of one call, as the events show it. */
export interface Verdict {
  readonly permission: "allow" | "ask" | "deny";
  /** Absent when the call was refused before any policy applied: the tool is disabled or unknown. */
  readonly evaluation: Evaluation | null;
}

/**
 * Applies the pinned policy; `judgment` is the evaluator's, needed under `auto` alone. A custom tool belongs to the
 * application: no policy, no verdict on the event.
 */
export function judge(tool: PinnedTool | undefined, judgment: Judgment = ASK): Verdict {
  switch (tool?.policy) {
    case undefined:
      return { permission: "deny", evaluation: null };
    case "always_ask":
      return { permission: "ask", evaluation: { type: "always_ask" } };
    case "auto": {
      const { permission: type, ...reason } = judgment;
      // Spread apart, the code no longer belongs to its permission for the compiler; it does, because both are of one.
      const evaluated = { type, ...reason } as Extract<Evaluation, { type: "auto" }>["evaluated_permission"];
      return { permission: type, evaluation: { type: "auto", evaluated_permission: evaluated } };
    }
    case "always_allow":
    case null:
      return { permission: "allow", evaluation: { type: "always_allow" } };
  }
}

/** What a call still needs from outside before its turn may go on. */
export type Need = "confirmation" | "result";

/**
 * ask and server-side: a confirmation, then it is run here. ask and worker: a confirmation, then the worker's result.
 * allow and worker, or custom: a result. deny: nothing.
 */
export function needsOf(permission: Verdict["permission"], owner: ToolOwner | "none"): readonly Need[] {
  if (permission === "deny" || owner === "none") {
    return [];
  }
  const confirmation: Need[] = permission === "ask" ? ["confirmation"] : [];
  const outside = owner === "client_self_hosted" || owner === "client_custom";
  return outside ? [...confirmation, "result"] : confirmation;
}

/** The text that the model is given for a call that may not run. */
export function deniedText(toolName: string, denyMessage: string | null): string {
  const refusal = `Permission to use ${toolName} has been denied.`;
  return denyMessage === null ? refusal : `${refusal} ${denyMessage}`;
}
