/** The offline model's answer to one request: a pure function of the request's text. */
import { createHash } from "node:crypto";
import { CRITERIA } from "../../permissions/criteria.ts";
import type { ModelUsage } from "../model.ts";
import { offlineJudgment } from "./judgment.ts";
import { readRequest } from "./requests.ts";
import { plan, type Step } from "./rules.ts";
import { announce, introduce, report } from "./wording.ts";

export interface OfflineAnswer {
  readonly id: string;
  readonly model: string;
  readonly blocks: readonly OfflineBlock[];
  readonly stopReason: "end_turn" | "tool_use" | "max_tokens";
  readonly usage: ModelUsage;
}

/** In the wire's own key order: `JSON.stringify` gives the block's text. */
export type OfflineBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: unknown };

const CHARS_PER_TOKEN = 4;

export function offlineAnswer(body: string): OfflineAnswer {
  const request = readRequest(body);
  const hash = createHash("sha256").update(body).digest("hex").slice(0, 22);
  if (request.system === CRITERIA) {
    const blocks = [{ type: "text", text: offlineJudgment(request.instruction) }] as const;
    return { id: `msg_${hash}`, model: request.model, blocks, stopReason: "end_turn", usage: usageOf(body, blocks) };
  }
  const { steps, parallel } = plan(request.instruction, request.tools);
  const offered = new Set(request.tools.map((tool) => tool.name));
  const possible = steps.filter((step) => offered.has(step.tool));
  const missing = steps.filter((step) => !offered.has(step.tool));
  const done = request.calls.length;
  const next = possible.slice(done, parallel ? undefined : done + 1);

  const text =
    next.length > 0
      ? announce(next, done === 0)
      : done + missing.length > 0
        ? report(request.calls, possible, missing)
        : introduce(request.instruction, request.tools);
  const room = request.maxTokens * CHARS_PER_TOKEN;
  const isCut = text.length > room;
  const blocks: OfflineBlock[] = [
    { type: "text", text: isCut ? text.slice(0, room).toWellFormed() : text },
    ...(isCut ? [] : next.map((step, position) => callBlock(step, `toolu_${hash}${position}`))),
  ];
  return {
    id: `msg_${hash}`,
    model: request.model,
    blocks,
    stopReason: isCut ? "max_tokens" : next.length > 0 ? "tool_use" : "end_turn",
    usage: usageOf(body, blocks),
  };
}

function callBlock(step: Step, id: string): OfflineBlock {
  return { type: "tool_use", id, name: step.tool, input: step.input };
}

/** Rough counts, so that budgets and totals have something to show. */
export function usageOf(body: string, blocks: readonly OfflineBlock[]): ModelUsage {
  const written = blocks.reduce((sum, block) => sum + JSON.stringify(block).length, 0);
  return {
    inputTokens: Math.ceil(body.length / CHARS_PER_TOKEN),
    outputTokens: Math.ceil(written / CHARS_PER_TOKEN),
    cacheReadInputTokens: 0,
    cacheCreationInputTokens: 0,
    webSearchRequests: 0,
    webFetchRequests: 0,
  };
}
