import { z } from "@hono/zod-openapi";

/** The error envelope, for the OpenAPI document. */
export const ErrorEnvelope = z
  .object({
    type: z.literal("error"),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.looseObject({ error_code: z.string().optional() }).optional(),
    }),
    request_id: z.string(),
  })
  .openapi("Error");

export const error = (description: string) => ({
  description,
  content: { "application/json": { schema: ErrorEnvelope } },
});

/** The errors that every authenticated route may answer. */
export const ERRORS = {
  400: error("The request is wrong; the message names the field."),
  401: error("No key, two keys, or a key that opens nothing."),
  403: error("The key may not be used for this."),
  404: error("Nothing by that id in the key's workspace."),
  409: error("The resource's state forbids this; repeating the request does not help."),
  413: error("The body is larger than 32 MB, or on AWS than 4.5 MB."),
  422: error("A feature that this server does not have; the message names it."),
  503: error(
    "The database cannot be reached for the moment. Nothing was written: repeat it after `retry-after` seconds.",
  ),
} as const;

/** A JSON answer of a route. */
export function json<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { "application/json": { schema } } };
}

/** A JSON body of a route. */
export function body<Schema extends z.ZodType>(schema: Schema) {
  return { required: true, content: { "application/json": { schema } } };
}

/**
 * Answers with JSON text that exists already: events are spliced, not parsed.
 *
 * hono types a handler's answer by its route's schemas. Ours are typed where they are made, and every answer is checked
 * against the OpenAPI document in the tests, so the type here fits any route.
 */
export function rawJson(text: string): never {
  return new Response(text, { status: 200, headers: { "content-type": "application/json" } }) as never;
}

/** Answers with a value as JSON. */
export function answer(value: unknown): never {
  return rawJson(JSON.stringify(value));
}
