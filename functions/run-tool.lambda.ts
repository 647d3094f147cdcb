import { runTool } from "../shared/turns/run-tool.ts";
import type { ToolExecutor } from "../shared/turns/tool-executor.ts";
import type { RunToolInput } from "../statemachines/turn-payload.ts";
import { configuredTools } from "./configured-tools.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

let tools: ToolExecutor | undefined;

export const handler = invocation((input: RunToolInput) => {
  tools ??= configuredTools();
  return runTool({ ...product(), tools }, input);
});
