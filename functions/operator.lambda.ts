import { operate } from "../shared/operator/operate.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

/** The operator's commands. Whoever IAM lets invoke this function is one: it has no address that HTTP reaches. */
export const handler = invocation((event: unknown) => operate(product().database, event));
