import { awaitActions } from "../shared/turns/await-actions.ts";
import type { AwaitInput } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

export const handler = invocation((input: AwaitInput) => awaitActions(product(), input));
