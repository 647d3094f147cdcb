import { completeTurn } from "../shared/turns/complete-turn.ts";
import type { TurnRef } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

export const handler = invocation((input: TurnRef) => completeTurn(product(), input));
