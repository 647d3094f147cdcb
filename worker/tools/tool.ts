import { z } from "zod";

/** A tool's answer in the conversation. */
export interface ToolResult {
  readonly text: string;
  readonly isError: boolean;
}

/** What went wrong, in words meant for the model. */
export class ToolFailure extends Error {}

export interface Tool {
  readonly name: string;
  /** Never rejects: whatever goes wrong is an error result. The key is the call's, for what a program does outside. */
  run(input: unknown, signal: AbortSignal, idempotencyKey?: string | null): Promise<ToolResult>;
  close(): void;
}

interface ToolDefinition<Schema extends z.ZodType> {
  readonly name: string;
  readonly input: Schema;
  readonly run: (input: z.output<Schema>, signal: AbortSignal, idempotencyKey: string | null) => Promise<string>;
  readonly close?: () => void;
}

export function defineTool<Schema extends z.ZodType>(tool: ToolDefinition<Schema>): Tool {
  return {
    name: tool.name,
    async run(input, signal, idempotencyKey = null) {
      const parsed = tool.input.safeParse(input);
      if (!parsed.success) return failed(`${tool.name}: ${inputProblem(parsed.error, input)}`);
      if (signal.aborted) return failed(`${tool.name}: ${stopReason(signal)}`);
      try {
        return { text: await abortable(tool.run(parsed.data, signal, idempotencyKey), signal), isError: false };
      } catch (error) {
        if (error instanceof ToolFailure) return failed(error.message);
        if (signal.aborted) return failed(`${tool.name}: ${stopReason(signal)}`);
        // Anything else is ours; its message may hold a path of the host.
        return failed(`${tool.name}: internal error (${(error as NodeJS.ErrnoException).code ?? "unexpected"})`);
      }
    },
    close: tool.close ?? (() => {}),
  };
}

/** Why the call was told to stop: the reason of its signal. */
export function stopReason(signal: AbortSignal): string {
  const reason: unknown = signal.reason;
  return reason instanceof StopReason ? reason.message : "stopped";
}

/** The reason to give to `abort()`: its text reaches the model. */
export class StopReason extends Error {}

/** A required text. */
export const requiredText = () => z.string("must be a string").min(1, "is required");
/** Models write `null` for a field that they leave out. */
export const optionalText = () => z.string("must be a string").nullish();
export const optionalFlag = () => z.boolean("must be true or false").nullish();

function inputProblem(error: z.ZodError, input: unknown): string {
  const issue = error.issues[0];
  const field = issue?.path[0];
  if (issue === undefined || field === undefined) return "the input must be an object";
  const given = (input as Record<PropertyKey, unknown>)[field];
  return `${String(field)} ${given === undefined || given === null ? "is required" : issue.message}`;
}

export function failed(text: string): ToolResult {
  return { text, isError: true };
}

/** File calls cannot be taken back; the answer does not wait for them. */
async function abortable<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
