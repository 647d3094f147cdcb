import { completeTurn } from "../shared/turns/complete-turn.ts";
import type { TurnRef } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { count } from "./observation.ts";
import { product } from "./product.ts";

export const handler = invocation(async (input: TurnRef) => {
  const output = await completeTurn(product(), input);
  count("TurnsCompleted");
  return output;
});
