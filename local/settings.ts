import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { type CapabilityProfile, ProfileError, parseProfile } from "../shared/model/capability-profile.ts";
import { DomainNames, type DomainRule } from "../shared/web-fetch/domain-rule.ts";
import type { ToolSettings } from "./bundled-worker.ts";
import { nearest } from "./nearest-name.ts";

/** The environment does not describe a server that could run. The message names every variable that has to change. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

/** How a server is set up: the environment, checked and with every default filled in. Paths are absolute. */
export type Settings = Readonly<{
  port: number;
  host: string;
  dataDir: string;
  apiKey: string;
  /** A PostgreSQL of the operator's own; null: the embedded one. */
  databaseUrl: string | null;
  /** Null: the offline model. */
  model: Readonly<{
    baseUrl: string;
    apiKey: string | null;
    auth: ModelAuth;
    /** Null: nothing is claimed for the endpoint. */
    profile: CapabilityProfile | null;
  }> | null;
  /** The demo's model; null: the offline one's. */
  modelId: string | null;
  /** The server fetches pages itself; null: web_fetch runs where the endpoint's profile has it. */
  webFetch: Readonly<{ domains: DomainRule; proxy: URL | null }> | null;
  worker: boolean;
  workspaceRoot: string;
  /** Where the bundled worker's tools run, and whether they may do so isolated from nothing. */
  tools: ToolSettings;
  auditRetentionDays: number;
  log: "text" | "json";
}>;

/** How the model's key is sent: `x-api-key: …` or `authorization: Bearer …`. */
export type ModelAuth = "x-api-key" | "authorization-bearer";

const text = z.string().min(1, "must not be empty");
const onOff = z.enum(["on", "off"]);
const url = (protocols: RegExp, kind: string) =>
  z.url({ protocol: protocols, error: `must be a URL that starts with ${kind}` });

/**
 * Every setting, once: its form, its default (as text, the way an operator would write it) and what it is for. The
 * check, the help and the README's table are made from this.
 */
const variables = {
  MANGO_PORT: {
    about: "Port of the HTTP API; `0` takes any that is free.",
    fallback: "8787",
    form: z
      .string()
      .regex(/^\d+$/, "must be a port, 0 to 65535")
      .transform(Number)
      .refine((port) => port <= 65_535, "must be a port, 0 to 65535"),
  },
  MANGO_HOST: {
    about: "Address to listen on. Anything but the loopback is open to the network: set `MANGO_API_KEY` too.",
    fallback: "127.0.0.1",
    form: text,
  },
  MANGO_DATA_DIR: {
    about: "Folder for the embedded database, files and workspaces. Relative paths start at the project.",
    fallback: ".mango",
    form: text,
  },
  MANGO_API_KEY: {
    about: "Key that clients send in `X-Api-Key` or `Authorization: Bearer`.",
    fallback: "sk-mango-local-development",
    form: z.string().regex(/^[\x21-\x7e]{16,}$/, "must be 16 or more printable characters without spaces"),
  },
  MANGO_DATABASE_URL: {
    about: "A PostgreSQL 17 of your own, instead of the embedded one.",
    fallback: null,
    form: url(/^postgres(ql)?$/, "postgresql://"),
  },
  MANGO_MODEL_BASE_URL: {
    about: "Endpoint of a Messages API. Unset: the offline model, which needs no key.",
    fallback: null,
    form: url(/^https?$/, "https:// or http://"),
  },
  MANGO_MODEL_API_KEY: {
    about: "Key for that endpoint.",
    fallback: null,
    form: text,
  },
  MANGO_MODEL_AUTH: {
    about: "Header the key is sent in: `x-api-key` or `authorization-bearer`.",
    fallback: "x-api-key",
    form: z.enum(["x-api-key", "authorization-bearer"]),
  },
  MANGO_MODEL_PROFILE: {
    about:
      "What that endpoint can do: JSON, or the path of a JSON file; see [the model endpoint](docs/model-endpoint.md). Unset: nothing is claimed for it.",
    fallback: null,
    form: text,
  },
  MANGO_MODEL_ID: {
    about: "Model that the demo's agent asks for. Unset: the offline model's.",
    fallback: null,
    form: text,
  },
  MANGO_WEB_FETCH: {
    about:
      "Who runs `web_fetch`: `native`, the model endpoint where its profile has it; `managed`, this server, so that calls can be asked about. See [web tools](docs/web-tools.md).",
    fallback: "native",
    form: z.enum(["native", "managed"]),
  },
  MANGO_WEB_FETCH_ALLOWED_DOMAINS: {
    about: "With `managed`: the only domains that may be fetched, subdomains included; comma-separated. Unset: any.",
    fallback: null,
    form: DomainNames,
  },
  MANGO_WEB_FETCH_BLOCKED_DOMAINS: {
    about: "With `managed`: domains that are never fetched, subdomains included; comma-separated.",
    fallback: null,
    form: DomainNames,
  },
  MANGO_WEB_FETCH_PROXY: {
    about: "With `managed`: an HTTP proxy that fetches are tunnelled through, `http://user:password@host:port`.",
    fallback: null,
    form: url(/^https?$/, "https:// or http://"),
  },
  MANGO_WORKER: {
    about: "`on` starts the bundled worker for a default environment; `off` leaves tool calls to workers of your own.",
    fallback: "on",
    form: onOff,
  },
  MANGO_WORKSPACE_ROOT: {
    about: "Folder in which the bundled worker gives each session a workspace. Unset: `workspaces` in the data folder.",
    fallback: null,
    form: text,
  },
  MANGO_WORKER_LAUNCHER: {
    about:
      "Where the bundled worker's tools run: `bwrap` (bubblewrap), `docker`, or `process`, which isolates nothing. " +
      "`auto` is bwrap where it works, else process.",
    fallback: "auto",
    form: z.enum(["auto", "bwrap", "docker", "process"]),
  },
  MANGO_WORKER_NETWORK: {
    about: "Network of the tools under bwrap and docker: `none`, or this machine's (`host`), its loopback included.",
    fallback: "none",
    form: z.enum(["none", "host"]),
  },
  MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER: {
    about: "`1` lets a real model's tools run in `process`, which is refused otherwise.",
    fallback: null,
    form: z.literal("1"),
  },
  MANGO_AUDIT_RETENTION_DAYS: {
    about: "How many days the journal of a deleted session is kept; what was said is removed at once.",
    fallback: "30",
    form: z
      .string()
      .regex(/^\d{1,4}$/, "must be a whole number of days")
      .transform(Number),
  },
  MANGO_LOG: {
    about: "Form of the server's log: `text` for people, `json` for machines.",
    fallback: "text",
    form: z.enum(["text", "json"]),
  },
} as const satisfies Record<string, { about: string; fallback: string | null; form: z.ZodType }>;

type Name = keyof typeof variables;

/** Variables of our other programs. They may stand in the same shell; a server neither reads nor minds them. */
const ofOthers = ["MANGO_ENVIRONMENT_KEY", "MANGO_ENVIRONMENT_ID", "MANGO_URL", "MANGO_OPERATOR_FUNCTION"];

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the settings from the environment. `projectDir` is what relative paths start at.
 *
 * Names that are almost right are refused rather than ignored: a server that silently runs on a default where its
 * operator asked for something else is the harder failure to find.
 *
 * @throws SettingsError listing everything that is wrong, not only the first.
 */
export function readSettings(environment: Environment, projectDir: string): Settings {
  const problems = unknownNames(environment);
  function read<N extends Name>(name: N): z.output<(typeof variables)[N]["form"]> | null {
    const { form, fallback } = variables[name];
    const written = environment[name] ?? fallback;
    if (written === null) return null;
    const result = form.safeParse(written);
    if (result.success) return result.data as z.output<(typeof variables)[N]["form"]>;
    problems.push(`${name} ${complaint(result.error)}`);
    return null;
  }
  /** For settings with a default: null only after a problem was noted, and then nothing is returned at all. */
  const required = <N extends Name>(name: N) => read(name) as NonNullable<ReturnType<typeof read<N>>>;

  const dataDir = path.resolve(projectDir, required("MANGO_DATA_DIR") ?? "");
  const workspaceRoot = read("MANGO_WORKSPACE_ROOT");
  const baseUrl = read("MANGO_MODEL_BASE_URL");
  const modelKey = read("MANGO_MODEL_API_KEY");
  const auth = required("MANGO_MODEL_AUTH");
  const leave = read("MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER");
  const profileText = read("MANGO_MODEL_PROFILE");
  const profile = profileText === null ? null : readProfile(profileText, projectDir, problems);
  const proxy = read("MANGO_WEB_FETCH_PROXY");
  const managed = {
    domains: {
      allowed: read("MANGO_WEB_FETCH_ALLOWED_DOMAINS"),
      blocked: read("MANGO_WEB_FETCH_BLOCKED_DOMAINS"),
    },
    proxy: proxy === null ? null : new URL(proxy),
  };
  const settings: Settings = {
    port: required("MANGO_PORT"),
    host: required("MANGO_HOST"),
    dataDir,
    apiKey: required("MANGO_API_KEY"),
    databaseUrl: read("MANGO_DATABASE_URL"),
    model: baseUrl === null ? null : { baseUrl, apiKey: modelKey, auth, profile },
    modelId: read("MANGO_MODEL_ID"),
    webFetch: required("MANGO_WEB_FETCH") === "managed" ? managed : null,
    worker: required("MANGO_WORKER") === "on",
    workspaceRoot: workspaceRoot === null ? path.join(dataDir, "workspaces") : path.resolve(projectDir, workspaceRoot),
    tools: {
      launcher: required("MANGO_WORKER_LAUNCHER"),
      network: required("MANGO_WORKER_NETWORK"),
      // The offline model asks for nothing but what its user has typed.
      allowProcess: leave === "1" || baseUrl === null,
    },
    auditRetentionDays: required("MANGO_AUDIT_RETENTION_DAYS"),
    log: required("MANGO_LOG"),
  };
  problems.push(...withoutEndpoint(environment), ...withoutManagedFetch(environment));
  if (problems.length > 0)
    throw new SettingsError(`Mango cannot start:\n${problems.map((it) => `  ${it}`).join("\n")}`);
  return settings;
}

function unknownNames(environment: Environment): string[] {
  const known = [...Object.keys(variables), ...ofOthers];
  return Object.keys(environment)
    .filter((name) => name.startsWith("MANGO_") && !known.includes(name))
    .map((name) => `${name} is not a setting; did you mean ${nearest(name, Object.keys(variables))}?`);
}

/** Says what a value must be and never what it was: some of them are keys. */
function complaint(error: z.ZodError): string {
  const issue = error.issues[0];
  if (issue?.code === "invalid_value")
    return `must be ${issue.values.map((value) => `"${String(value)}"`).join(" or ")}`;
  return issue?.message ?? "is malformed";
}

/** The profile from its JSON text or its file. What is wrong with it joins `problems`. */
function readProfile(written: string, projectDir: string, problems: string[]): CapabilityProfile | null {
  const inline = written.trimStart().startsWith("{");
  let json = written;
  if (!inline) {
    try {
      json = readFileSync(path.resolve(projectDir, written), "utf8");
    } catch {
      problems.push("MANGO_MODEL_PROFILE is neither a JSON object nor the path of a file that can be read");
      return null;
    }
  }
  try {
    return parseProfile(json);
  } catch (error) {
    if (!(error instanceof ProfileError)) throw error;
    problems.push(`MANGO_MODEL_PROFILE${inline ? "" : " (the file)"}: ${error.message}`);
    return null;
  }
}

/** A key without an address would be sent nowhere, while its owner believes that a real model answers. */
function withoutEndpoint(environment: Environment): string[] {
  if (environment["MANGO_MODEL_BASE_URL"] !== undefined) return [];
  return (["MANGO_MODEL_API_KEY", "MANGO_MODEL_AUTH", "MANGO_MODEL_PROFILE"] as const)
    .filter((name) => environment[name] !== undefined)
    .map((name) => `${name} needs MANGO_MODEL_BASE_URL, the endpoint it is for`);
}

/** A restriction that nothing enforces would be worse than none. */
function withoutManagedFetch(environment: Environment): string[] {
  if (environment["MANGO_WEB_FETCH"] === "managed") return [];
  return ["MANGO_WEB_FETCH_ALLOWED_DOMAINS", "MANGO_WEB_FETCH_BLOCKED_DOMAINS", "MANGO_WEB_FETCH_PROXY"]
    .filter((name) => environment[name] !== undefined)
    .map((name) => `${name} needs MANGO_WEB_FETCH=managed`);
}

/** The settings as a Markdown table, for the README and `--help`. */
export function settingsTable(): string {
  const rows = Object.entries(variables).map(([name, { about, fallback }]) => [
    `\`${name}\``,
    fallback === null ? "unset" : `\`${fallback}\``,
    about,
  ]);
  return [["setting", "default", "what it is for"], ["---", "---", "---"], ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}
