import { failTurn } from "../shared/turns/complete-turn.ts";
import type { FailTurnInput } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

export const handler = invocation((input: FailTurnInput) => failTurn(product(), input));
