import { failTurn } from "../shared/turns/complete-turn.ts";
import type { FailTurnInput } from "../statemachines/turn-payload.ts";
import { invocation } from "./invocation.ts";
import { count } from "./observation.ts";
import { product } from "./product.ts";

export const handler = invocation(async (input: FailTurnInput) => {
  const output = await failTurn(product(), input);
  count("TurnsFailed");
  return output;
});
