import { OpenAPIHono } from "@hono/zod-openapi";
import type { Env } from "./auth.ts";
import { validationError } from "./validation.ts";

/** A router whose validation failures come out in the envelope. */
export function router(): OpenAPIHono<Env> {
  return new OpenAPIHono<Env>({
    defaultHook: (result) => {
      if (!result.success) {
        throw validationError(result.error);
      }
    },
  });
}
