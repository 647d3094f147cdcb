import { callModel } from "../shared/turns/call-model.ts";
import type { TurnRef } from "../statemachines/turn-payload.ts";
import { configuredModel } from "./configured-model.ts";
import { invocation } from "./invocation.ts";
import { count } from "./observation.ts";
import { product } from "./product.ts";

export const handler = invocation(async (input: TurnRef, context) => {
  // Before anything is journaled: a key that cannot be read is no request whose effect would be unknown.
  const model = await configuredModel();
  const deadline = new Date(Date.now() + context.getRemainingTimeInMillis());
  const output = await callModel({ ...product(), model }, input, { deadline });
  if (output.next === "end" || output.next === "tools" || output.next === "continue") {
    count("Rounds");
  }
  return output;
});
