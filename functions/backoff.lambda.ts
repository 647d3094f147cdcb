import { backoff } from "../shared/turns/await-actions.ts";
import type { BackoffInput } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

export const handler = invocation((input: BackoffInput) => backoff(product(), input));
