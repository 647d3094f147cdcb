import { gateTools } from "../shared/turns/gate-tools.ts";
import type { TurnRef } from "../statemachines/turn-payload.ts";
import { configuredModel } from "./configured-model.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

export const handler = invocation(async (input: TurnRef) => {
  // Calls under the policy auto are judged by the session's model.
  const model = await configuredModel();
  return gateTools({ ...product(), model }, input);
});
