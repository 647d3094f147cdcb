import { z } from "zod";

/**
 * What a Messages endpoint can do, stated by whoever configures it and never guessed: a URL is an address, not a
 * capability. It is pinned with each session, so that a rollout of another profile changes no running one.
 */

/** The hosted endpoint refuses a body of more than 32 MB. */
const LARGEST_REQUEST_BYTES = 30 * 1024 * 1024;

/** What the adapter sends by itself; a header for idempotency must be another. */
const TAKEN_HEADERS = new Set([
  "accept",
  "authorization",
  "connection",
  "content-length",
  "content-type",
  "host",
  "transfer-encoding",
  "user-agent",
  "x-api-key",
]);

const toolVersion = (name: "web_search" | "web_fetch") =>
  z.string().regex(new RegExp(`^${name}_\\d{8}$`), `must be ${name}_ and a date of eight digits`);

export const CapabilityProfile = z
  .strictObject({
    /** Names this statement. Recorded with every session, snapshot and transcript entry: change it with the content. */
    version: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be 1 to 64 of A-Z a-z 0-9 . _ -"),
    /** The endpoint runs web_search inside a request. */
    native_web_search: z.boolean().default(false),
    /** The endpoint runs web_fetch inside a request. */
    native_web_fetch: z.boolean().default(false),
    /** The endpoint can cite what web_fetch read. */
    native_citations: z.boolean().default(false),
    /** The endpoint guarantees that what `response_inclusion: excluded` leaves out need not be sent back. */
    native_response_inclusion: z.boolean().default(false),
    /** The endpoint takes back every block that it sent, those that we do not know among them. */
    preserves_unknown_content_blocks: z.boolean().default(false),
    /** Which declarations of the web tools the endpoint takes. */
    provider_tool_versions: z
      .strictObject({
        web_search: toolVersion("web_search").default("web_search_20260318"),
        web_fetch: toolVersion("web_fetch").default("web_fetch_20260318"),
      })
      .prefault({}),
    /** The request header under whose value the endpoint answers a repeat with the first answer; null: it does not. */
    provider_idempotency: z
      .strictObject({
        header: z
          .string()
          .regex(/^[a-z][a-z0-9-]{0,63}$/, "must be a header's name in lower case")
          .refine(
            (name) => !TAKEN_HEADERS.has(name) && !name.startsWith("anthropic-"),
            "is a header that the request has already",
          ),
      })
      .nullable()
      .default(null),
    /** Tokens that a request and its answer may have together; null: not stated. Half of it is left to the request. */
    context_window_tokens: z.int().min(1024).nullable().default(null),
    /** The hard ceiling of one request, in bytes: a larger one is not sent, and its turn ends exhausted. */
    max_request_bytes: z.int().min(1024).max(LARGEST_REQUEST_BYTES).default(LARGEST_REQUEST_BYTES),
  })
  .superRefine((profile, context) => {
    for (const capability of ["native_web_search", "native_web_fetch"] as const) {
      if (profile[capability] && !profile.preserves_unknown_content_blocks) {
        context.addIssue({
          code: "custom",
          path: [capability],
          message:
            "needs preserves_unknown_content_blocks: the next request sends back the blocks that the tool was answered with",
        });
      }
    }
  });
export type CapabilityProfile = z.output<typeof CapabilityProfile>;

/** The profile of an endpoint about which nothing was stated. */
export const CLAIMS_NOTHING: CapabilityProfile = CapabilityProfile.parse({ version: "unstated-1" });

/** The text is no profile. The message names each key that has to change. */
export class ProfileError extends Error {
  override readonly name = "ProfileError";
}

/**
 * Reads a profile from its JSON text. A key that is not known is refused: it may be a capability that its author counts
 * on.
 *
 * @throws ProfileError
 */
export function parseProfile(text: string): CapabilityProfile {
  const read = CapabilityProfile.safeParse(parseJson(text));
  if (!read.success) {
    throw new ProfileError(read.error.issues.map(complaint).join("; "));
  }
  return read.data;
}

/** A profile as settings hold it: its JSON text. */
export const ProfileText = z.string().transform((text, context) => {
  try {
    return parseProfile(text);
  } catch (error) {
    context.addIssue({ code: "custom", message: (error as Error).message });
    return z.NEVER;
  }
});

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProfileError("is not JSON");
  }
}

function complaint(issue: z.core.$ZodIssue): string {
  if (issue.code === "unrecognized_keys") {
    return `${[...issue.path, issue.keys.join(", ")].join(".")} is not a key of a profile`;
  }
  const where = issue.path.join(".");
  return where === "" ? "must be a JSON object" : `${where}: ${issue.message}`;
}
