import { z } from "zod";
import { ProfileText } from "../shared/model/capability-profile.ts";
import { DomainNames } from "../shared/web-fetch/domain-rule.ts";

/**
 * What an operator may choose at deployment: `npx cdk deploy --all -c stage=prod -c minCapacity=1`, or `context` in
 * cdk.json. On the command line every value is text, so numbers and booleans are read from text too.
 */

const flag = z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]);
const capacity = z.coerce.number().multipleOf(0.5).max(256);
const concurrency = z.coerce.number().int().min(1);
const zones = z
  .string()
  .transform((list) => list.split(",").map((name) => name.trim()))
  .refine(
    (names) => new Set(names).size === 2 && names.length === 2 && names.every((it) => /^[a-z][a-z0-9-]+$/.test(it)),
    {
      error: "must be the names of two zones, separated by a comma",
    },
  );

/** With credentials only by reference: CloudFormation puts them in, and no template and no context holds them. */
const proxy = z.union(
  [
    z.url({ protocol: /^https?$/ }).refine((url) => !/@/.test(url)),
    z.string().regex(/^\{\{resolve:secretsmanager:[\w/+=.@:-]+\}\}$/),
  ],
  { error: "must be a URL without a password, or {{resolve:secretsmanager:<name of a secret that is the URL>}}" },
);

export const Settings = z.strictObject({
  /** Names the stacks, so that several deployments fit into one account. */
  stage: z
    .string()
    .regex(
      /^(?=.{1,16}$)[a-z][a-z0-9]*(-[a-z0-9]+)*$/,
      "must be at most 16 lower-case letters, digits and single hyphens, a letter first and no hyphen last",
    )
    .default("dev"),
  /** Aurora capacity units. RDS Proxy keeps connections, so that the database never pauses: 0 only with scaleToZero. */
  minCapacity: capacity.min(0).optional(),
  maxCapacity: capacity.min(1).default(8),
  /**
   * Lets the database pause when nothing has happened for ten minutes: no proxy, and whoever comes first is told to come
   * again while it resumes (fifteen seconds, thirty after a day).
   */
  scaleToZero: flag.default(false),
  /**
   * The network's two zones, by default the region's first two. Not every zone has RDS Proxy (use1-az3 in us-east-1 has
   * none), and which zone has which name differs from one account to the next.
   */
  availabilityZones: zones.optional(),
  /** The functions reach the model and AWS through them: 0 only with ownEgress. */
  natGateways: z.coerce.number().int().min(0).max(2).default(1),
  /**
   * The operator gives the functions' subnets another way out (a transit gateway, endpoints) between the two stacks: the
   * first migration asks AWS for the database's secret.
   */
  ownEgress: flag.default(false),
  /** Keeps the database, the files and the key when the stacks are deleted, and refuses to delete the database. */
  retainData: flag.default(true),
  /** A Messages endpoint, without `/v1/messages`. Its key goes into the secret that the stack makes. */
  modelBaseUrl: z
    .url({ protocol: /^https?$/, error: "must be a URL that starts with https://" })
    .default("https://api.anthropic.com"),
  modelAuth: z.enum(["x-api-key", "authorization-bearer"]).default("x-api-key"),
  /** What the endpoint can do, as JSON text: see docs/model-endpoint.md. Without it nothing is claimed. */
  modelProfile: ProfileText.optional(),
  /** Who runs web_fetch: the endpoint where its profile has it, or a function of this deployment outside its network. */
  webFetch: z.enum(["native", "managed"]).default("native"),
  /** With managed: the only domains that may be fetched, and those that never are; subdomains included. */
  webFetchAllowedDomains: DomainNames.optional(),
  webFetchBlockedDomains: DomainNames.optional(),
  /** With managed: an HTTP proxy that fetches are tunnelled through. */
  webFetchProxy: proxy.optional(),
  /** How long a stream lives; its client then connects again and misses nothing. */
  streamLifeSeconds: z.coerce.number().int().min(10).max(870).default(300),
  /**
   * Whether each kind of request has environments of its own, as many as the next three settings say. Off only for an
   * account that may run few at once (a new one often 10), where one kind can then keep out the others.
   */
  reserveConcurrency: flag.default(true),
  /** How many streams may be open at once: each keeps a Lambda. */
  streamConcurrency: concurrency.default(200),
  apiConcurrency: concurrency.default(100),
  /** Workers that wait for work keep a Lambda each, up to 20 s. */
  workConcurrency: concurrency.default(100),
  /** Gets a mail for each alarm. */
  alarmEmail: z.email().optional(),
  /** The API's own name, besides the one that API Gateway makes. Needs certificateArn. */
  domainName: z
    .string()
    .regex(/^(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}$/, "must be a lower-case host name")
    .optional(),
  /** A certificate for domainName in the same region, from AWS Certificate Manager. */
  certificateArn: z
    .string()
    .regex(/^arn:[\w-]+:acm:[\w-]+:\d{12}:certificate\/\S+$/, "must be the ARN of a certificate")
    .optional(),
  /**
   * Only for an emulator: `host:port` of a PostgreSQL that lets the functions in whatever token they show, without TLS.
   * The model may then be anywhere, too.
   */
  emulatorDatabase: z
    .string()
    .regex(/^[\w.-]+:\d{1,5}$/, "must be a host and a port")
    .optional(),
});

export type Settings = z.output<typeof Settings> & { readonly minCapacity: number };

/** The least of a database that never pauses. */
const LEAST_CAPACITY = 0.5;

/** The context does not describe a deployment. The message names each value that has to change. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

/**
 * Reads the settings from the context. The CDK keeps its own entries there too, all of which have a colon or a slash in
 * their names; what has neither is meant for us, and refused when it is no setting.
 *
 * @throws SettingsError
 */
export function readSettings(context: Readonly<Record<string, unknown>>): Settings {
  const ours = Object.entries(context).filter(([name]) => !/[:/]/.test(name));
  const read = Settings.safeParse(Object.fromEntries(ours));
  if (!read.success) {
    throw wrong(
      read.error.issues.map((issue) =>
        issue.code === "unrecognized_keys"
          ? `${issue.keys.join(", ")}: no such setting; there are ${Object.keys(Settings.shape).join(", ")}`
          : `${issue.path.join(".")}: ${issue.message}`,
      ),
    );
  }
  const { scaleToZero } = read.data;
  const minCapacity = read.data.minCapacity ?? (scaleToZero ? 0 : LEAST_CAPACITY);
  const problems = contradictions({ ...read.data, minCapacity });
  if (problems.length > 0) {
    throw wrong(problems);
  }
  return { ...read.data, minCapacity };
}

/**
 * How many characters the lists of domains may have together: they are variables of `run-tool`, Lambda takes 4 KB of
 * variables for a function, and the others need up to 2,000.
 */
const DOMAIN_LIST_CHARACTERS = 2000;

/** Values that are right by themselves and not together. */
function contradictions(settings: Settings): string[] {
  const { minCapacity, maxCapacity, scaleToZero, natGateways, ownEgress, domainName, certificateArn } = settings;
  const domains = [...(settings.webFetchAllowedDomains ?? []), ...(settings.webFetchBlockedDomains ?? [])];
  return [
    ...(maxCapacity < minCapacity ? ["maxCapacity: is below minCapacity"] : []),
    ...(scaleToZero && minCapacity > 0 ? ["minCapacity: must be 0 with scaleToZero"] : []),
    ...(!scaleToZero && minCapacity < LEAST_CAPACITY
      ? [`minCapacity: must be at least ${LEAST_CAPACITY}; a database that pauses needs scaleToZero`]
      : []),
    ...(natGateways === 0 && !ownEgress
      ? ["natGateways: 0 leaves the functions without the model and AWS; declare another way out with ownEgress=true"]
      : []),
    // A restriction that nothing enforces would be worse than none.
    ...(settings.webFetch === "managed"
      ? []
      : (["webFetchAllowedDomains", "webFetchBlockedDomains", "webFetchProxy"] as const)
          .filter((name) => settings[name] !== undefined)
          .map((name) => `${name}: needs webFetch=managed`)),
    ...(domains.join().length > DOMAIN_LIST_CHARACTERS
      ? [
          `webFetchAllowedDomains, webFetchBlockedDomains: have more than ${DOMAIN_LIST_CHARACTERS} characters together, and Lambda keeps no more for a function`,
        ]
      : []),
    ...(settings.emulatorDatabase === undefined ? modelProblems(settings.modelBaseUrl) : []),
    ...((domainName === undefined) === (certificateArn === undefined)
      ? []
      : ["domainName, certificateArn: are needed together"]),
  ];
}

function modelProblems(url: string): string[] {
  const { port, protocol } = new URL(url);
  return [
    ...(protocol === "https:" ? [] : ["modelBaseUrl: must be a URL that starts with https://"]),
    ...(port === "" ? [] : ["modelBaseUrl: must use port 443: no other is let out"]),
  ];
}

function wrong(problems: readonly string[]): SettingsError {
  return new SettingsError(`The context (-c name=value, or cdk.json) is wrong:\n  ${problems.join("\n  ")}`);
}
