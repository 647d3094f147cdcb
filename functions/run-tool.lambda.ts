import { runTool } from "../shared/turns/run-tool.ts";
import type { RunToolInput } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

export const handler = invocation((input: RunToolInput) => runTool(product(), input));
