import { z } from "@hono/zod-openapi";
import { InvalidRequest } from "./errors.ts";

/**
 * The building blocks of the contract's schemas. Objects are strict: an unknown field is an error at every level,
 * because a field that is silently dropped is a setting that its author believes in.
 */

const MAX_METADATA_PAIRS = 16;
const MetadataKey = z.string().min(1, "a key needs at least one character").max(64, "a key has at most 64 characters");
const MetadataValue = z.string().max(512, "a value has at most 512 characters");

/**
 * A field that may be left out or null. As a union, because a nullable reference would be written into the OpenAPI
 * document as an `allOf` that null can never satisfy.
 */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return z.union([schema, z.null()]).optional();
}

/** Metadata of a resource: at most 16 pairs, keys of 1 to 64 characters, values of at most 512. */
export const Metadata = z
  .record(MetadataKey, MetadataValue)
  .refine((pairs) => Object.keys(pairs).length <= MAX_METADATA_PAIRS, { error: "metadata holds at most 16 pairs" })
  .openapi("Metadata", { description: "At most 16 pairs; keys of 1 to 64 characters, values of at most 512." });

/** A change of metadata: a value sets its key, null removes it; keys that are left out stay. */
export const MetadataPatch = z.record(MetadataKey, MetadataValue.nullable()).openapi("MetadataPatch", {
  description: "Values set their keys, null removes them. The result holds at most 16 pairs.",
});

/** Applies a patch; the caller checks the result against `Metadata`. */
export function patchMetadata(
  metadata: Readonly<Record<string, string>>,
  patch: Readonly<Record<string, string | null>> | null | undefined,
): Record<string, string> {
  const patched = new Map(Object.entries(metadata));
  for (const [key, value] of Object.entries(patch ?? {})) {
    if (value === null) {
      patched.delete(key);
    } else {
      patched.set(key, value);
    }
  }
  if (patched.size > MAX_METADATA_PAIRS) {
    throw new InvalidRequest(
      `metadata: holds at most ${MAX_METADATA_PAIRS} pairs; this change would make ${patched.size}.`,
      { details: { error_code: "invalid_metadata" } },
    );
  }
  return Object.fromEntries(patched);
}

/** An RFC 3339 instant in UTC with milliseconds. */
export const Timestamp = z.iso.datetime().openapi({ example: "2026-12-01T09:30:00.000Z" });

/**
 * A field of the contract whose feature this server has not built yet. Official clients send such fields empty
 * (`vault_ids: []`, `budget: null`), which is accepted; any other value is a 422 that names the feature.
 */
export function notBuilt(feature: string, empty: "array" | "null") {
  return z
    .unknown()
    .superRefine((value, context) => {
      const accepted =
        value === undefined || value === null || (empty === "array" && Array.isArray(value) && value.length === 0);
      if (!accepted) {
        context.addIssue({
          code: "custom",
          message: `${feature} are not supported by this server yet`,
          params: { unsupported: feature },
        });
      }
    })
    .optional()
    .openapi(
      empty === "array"
        ? {
            type: ["array", "null"],
            items: {},
            maxItems: 0,
            description: `${feature}: not supported yet; only empty or null is accepted.`,
          }
        : { type: "null", description: `${feature}: not supported yet; only null is accepted.` },
    );
}

/** Adds the same kind of refusal to a value that is well formed but not supported. */
export function unsupported(feature: string, message: string) {
  return { message, params: { unsupported: feature } } as const;
}

/** The feature named by an issue that `notBuilt` or `unsupported` raised; undefined for an ordinary issue. */
export function unsupportedFeature(issue: z.core.$ZodIssue): string | undefined {
  const params = (issue as { params?: { unsupported?: unknown } }).params;
  return typeof params?.unsupported === "string" ? params.unsupported : undefined;
}
