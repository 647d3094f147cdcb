import { z } from "zod";
import { ProfileText } from "../shared/model/capability-profile.ts";
import { DomainNames } from "../shared/web-fetch/domain-rule.ts";

/**
 * What the functions are told by their environment variables, which `infra/` sets. One schema for each thing that a
 * function may need, so that a function has only the variables of what it does.
 */

const text = z.string().min(1);

/** What the model endpoint can do, as JSON text. The API pins it with each session; call-model sends what it names. */
const modelProfile = ProfileText.optional();

/** Who runs `web_fetch`: the model endpoint, or this deployment. The API pins it with each session. */
const webFetch = z.enum(["native", "managed"]).default("native");

/** What every function of the product needs. */
export const ProductEnvironment = z.object({
  /** Set by Lambda. */
  AWS_REGION: text,
  /** RDS Proxy's endpoint, or the cluster's where there is no proxy. */
  MANGO_DATABASE_HOST: text,
  MANGO_DATABASE_PORT: z.coerce.number().int().min(1).max(65_535).default(5432),
  MANGO_DATABASE_NAME: text,
  /** A role that may change rows, and has no password. */
  MANGO_DATABASE_USER: text,
  /** `off` only against an emulator. */
  MANGO_DATABASE_TLS: z.enum(["on", "off"]).default("on"),
  MANGO_LIVE_TABLE: text,
  MANGO_MODEL_PROFILE: modelProfile,
  /** Takes a message for the relay when something could not be said to Step Functions at once. */
  MANGO_RELAY_QUEUE_URL: z.url({ protocol: /^https?$/ }),
  /** `on` where the database pauses: nothing holds a connection between two invocations, and who only waits asks the
   * marker in the live table first. */
  MANGO_SCALE_TO_ZERO: z.enum(["on", "off"]).default("off"),
  MANGO_STATE_MACHINE_ARN: z.string().regex(/^arn:[\w-]+:states:[\w-]+:\d{12}:stateMachine:\S+$/),
  MANGO_WEB_FETCH: webFetch,
});

/** What the function that calls the model needs, and no other has. */
export const ModelEnvironment = z.object({
  MANGO_MODEL_BASE_URL: z.url({ protocol: /^https?$/ }),
  MANGO_MODEL_AUTH: z.enum(["x-api-key", "authorization-bearer"]).default("x-api-key"),
  /** The secret's text is the key itself. */
  MANGO_MODEL_SECRET_ARN: text,
  MANGO_MODEL_PROFILE: modelProfile,
});

/** What the function needs that runs the server's own tools. */
export const ToolEnvironment = z.object({ MANGO_WEB_FETCH: webFetch });

/** What it needs besides where pages are fetched: only this one may ask for that. */
export const PageCallerEnvironment = z.object({
  /** The name of the function that fetches pages. */
  MANGO_WEB_FETCH_FUNCTION: text,
  MANGO_WEB_FETCH_ALLOWED_DOMAINS: DomainNames.optional(),
  MANGO_WEB_FETCH_BLOCKED_DOMAINS: DomainNames.optional(),
});

/** What the function needs that fetches pages: it stands outside, and knows nothing else of the deployment. */
export const FetchPageEnvironment = z.object({
  /** An HTTP proxy that fetches are tunnelled through; may hold credentials. */
  MANGO_WEB_FETCH_PROXY: z.url({ protocol: /^https?$/ }).optional(),
});

/** What the functions behind the API need. */
export const ApiEnvironment = z.object({
  /** A stream ends before its function's 15 minutes do. */
  MANGO_STREAM_LIFE_SECONDS: z.coerce.number().int().min(1).max(870).default(300),
  /** Each keeps a Lambda, and there are so many for all keys together. */
  MANGO_STREAMS_PER_KEY: z.coerce.number().int().min(1).default(100),
});

/** What the migrator needs. */
export const MigrationEnvironment = z.object({
  AWS_REGION: text,
  /** The cluster's writer endpoint: the proxy would be pinned. */
  MANGO_DATABASE_HOST: text,
  MANGO_DATABASE_PORT: z.coerce.number().int().min(1).max(65_535).default(5432),
  MANGO_DATABASE_NAME: text,
  /** The role that the other functions connect as. */
  MANGO_DATABASE_USER: text,
  MANGO_DATABASE_TLS: z.enum(["on", "off"]).default("on"),
  /** JSON with `username` and `password` of a role that may create tables and roles. */
  MANGO_DATABASE_SECRET_ARN: text,
});

const KNOWN = new Set(
  [
    ProductEnvironment,
    ModelEnvironment,
    ToolEnvironment,
    PageCallerEnvironment,
    FetchPageEnvironment,
    ApiEnvironment,
    MigrationEnvironment,
  ].flatMap((it) => Object.keys(it.shape)),
);

/** The function was deployed with the wrong variables. The message names them and never quotes a value. */
export class EnvironmentError extends Error {
  override readonly name = "EnvironmentError";
}

/** @throws EnvironmentError naming everything that is missing, malformed, or not a variable of ours. */
export function readEnvironment<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): z.output<z.ZodObject<Shape>> {
  const read = schema.safeParse(environment);
  const problems = (read.error?.issues ?? []).map(({ path, code, message }) => {
    const name = String(path[0]);
    const why = code === "custom" ? ` (${message})` : "";
    return environment[name] === undefined ? `${name} is not set` : `${name} is malformed${why}`;
  });
  // A misspelt name would leave its default in force.
  for (const name of Object.keys(environment)) {
    if (name.startsWith("MANGO_") && !KNOWN.has(name)) {
      problems.push(`${name} is not a variable of this program`);
    }
  }
  if (!read.success || problems.length > 0) {
    throw new EnvironmentError(`${problems.join("; ")}.`);
  }
  return read.data;
}
