import { z } from "@hono/zod-openapi";
import { orNull } from "./schema.ts";

/** The built-in tools. The first six run on the worker; the web tools in the provider's request or on the server. */
export const WORKER_TOOLS = ["bash", "read", "write", "edit", "glob", "grep"] as const;
export const WEB_TOOLS = ["web_fetch", "web_search"] as const;
export type WorkerTool = (typeof WORKER_TOOLS)[number];
export type WebTool = (typeof WEB_TOOLS)[number];

const PolicyType = z.enum(["always_allow", "always_ask", "auto"]);
export type PolicyType = z.infer<typeof PolicyType>;

const PermissionPolicy = z.strictObject({ type: PolicyType }).openapi("PermissionPolicy", {
  description:
    "Who decides about a call: nobody (always_allow), a person (always_ask), or a judgment of the model (auto).",
});

const Switches = { enabled: z.boolean().nullish(), permission_policy: orNull(PermissionPolicy) };
const ToolDefaults = z.strictObject(Switches);

/** A host name, for web_search with a path behind it: never a scheme, a port or a wildcard. */
const Host = z
  .string()
  .min(1)
  .max(253)
  .regex(/^[A-Za-z0-9.-]+$/, "must be a host name");
const Site = z
  .string()
  .min(1)
  .max(512)
  .regex(/^[A-Za-z0-9.-]+(\/\S*)?$/, "must be a host name, with a path if you like");
const domains = (item: z.ZodString) => ({
  allowed_domains: z.array(item).min(1).max(64).nullish(),
  blocked_domains: z.array(item).min(1).max(64).nullish(),
});

const workerConfig = <Name extends WorkerTool>(name: Name) =>
  z.strictObject({ name: z.literal(name), type: z.literal(name).optional(), ...Switches });

/** Where URLs that may be fetched come from. `"all"` and `"none"` are short for their objects. */
const SourceRule = z
  .enum(["all", "none"])
  .transform((type) => ({ type }))
  .or(z.strictObject({ type: z.enum(["all", "none"]) }))
  .openapi({ description: 'Every URL of the source ("all") or none of it ("none").' });

const NamedTools = z
  .array(z.strictObject({ type: z.literal("tool_reference"), name: z.string().min(1).max(128) }))
  .min(1, "name at least one tool; use none or all for an empty list")
  .max(128);

const ResultsRule = SourceRule.or(z.strictObject({ type: z.enum(["only", "except"]), tools: NamedTools }));

const WebFetchConfig = z.strictObject({
  name: z.literal("web_fetch"),
  type: z.literal("web_fetch").optional(),
  ...Switches,
  ...domains(Host),
  max_content_tokens: z.int().min(1).nullish(),
  url_sources: z
    .strictObject({
      user_input: SourceRule.nullish(),
      client_tool_results: ResultsRule.nullish(),
      server_tool_results: ResultsRule.nullish(),
    })
    .nullish(),
});

const WebSearchConfig = z.strictObject({
  name: z.literal("web_search"),
  type: z.literal("web_search").optional(),
  ...Switches,
  ...domains(Site),
  user_location: z
    .strictObject({
      type: z.literal("approximate"),
      city: z.string().max(255).nullish(),
      country: z.string().max(2).nullish(),
      region: z.string().max(255).nullish(),
      timezone: z.string().max(255).nullish(),
    })
    .nullish(),
});

/** What an agent may say of web_fetch, apart from its switches. */
export type WebFetchSettings = Partial<
  Pick<z.output<typeof WebFetchConfig>, "allowed_domains" | "blocked_domains" | "max_content_tokens" | "url_sources">
>;

/** What an agent may say of web_search, apart from its switches. */
export type WebSearchSettings = Partial<
  Pick<z.output<typeof WebSearchConfig>, "allowed_domains" | "blocked_domains" | "user_location">
>;

const ToolConfig = z
  .discriminatedUnion("name", [
    workerConfig("bash"),
    workerConfig("read"),
    workerConfig("write"),
    workerConfig("edit"),
    workerConfig("glob"),
    workerConfig("grep"),
    WebFetchConfig,
    WebSearchConfig,
  ])
  .superRefine((config, context) => {
    if (
      (config.name === "web_fetch" || config.name === "web_search") &&
      config.allowed_domains &&
      config.blocked_domains
    ) {
      context.addIssue({
        code: "custom",
        path: ["blocked_domains"],
        message: "allowed_domains and blocked_domains exclude each other",
      });
    }
  });

/**
 * The built-in tools. Enabled and always allowed unless it says otherwise; a tool's own config wins over the default.
 * A web tool that runs inside the provider's request, where nobody can be asked, must be always_allow when it is
 * enabled: whether it does is the deployment's, so admission decides (`permissions/web-tools.ts`).
 */
const AgentToolset = z
  .strictObject({
    type: z.literal("agent_toolset_20260401"),
    default_config: orNull(ToolDefaults),
    configs: z.array(ToolConfig).max(8).nullish(),
  })
  .superRefine((toolset, context) => {
    const configs = toolset.configs ?? [];
    for (const [index, config] of configs.entries()) {
      if (configs.findIndex((other) => other.name === config.name) !== index) {
        context.addIssue({
          code: "custom",
          path: ["configs", index, "name"],
          message: `${config.name} is configured twice`,
        });
      }
    }
  })
  .openapi("AgentToolset");

const MAX_PROPERTY_NAME = /^[A-Za-z0-9_.-]{1,64}$/;

const InputSchema = z.looseObject({ type: z.literal("object") }).superRefine((schema, context) => {
  for (const keyword of ["oneOf", "anyOf", "allOf"]) {
    if (keyword in schema) {
      context.addIssue({
        code: "custom",
        path: [keyword],
        message: `${keyword} is not allowed at the top of an input_schema`,
      });
    }
  }
  walkSchema(schema, [], (path, message) => context.addIssue({ code: "custom", path, message }));
});

/** Property names and references at any depth. Written as a loop: an input schema may be nested as deep as the body allows. */
function walkSchema(root: unknown, start: PropertyKey[], report: (path: PropertyKey[], message: string) => void): void {
  const open: { value: unknown; path: PropertyKey[] }[] = [{ value: root, path: start }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, path } = next;
    if (typeof value !== "object" || value === null) {
      continue;
    }
    for (const [key, member] of Object.entries(value)) {
      if (key === "$ref") {
        report([...path, key], "$ref is not allowed in an input_schema");
      }
      if (key === "properties" && typeof member === "object" && member !== null) {
        for (const name of Object.keys(member)) {
          if (!MAX_PROPERTY_NAME.test(name)) {
            report([...path, key, name], "property names must be 1 to 64 of A-Z a-z 0-9 _ . -");
          }
        }
      }
      open.push({ value: member, path: [...path, key] });
    }
  }
}

const CustomTool = z
  .strictObject({
    type: z.literal("custom"),
    name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, "must be 1 to 128 of A-Z a-z 0-9 _ -"),
    description: z.string().max(10_000),
    input_schema: InputSchema,
  })
  .openapi("CustomTool");

const McpToolConfig = z.strictObject({ name: z.string().min(1).max(128), ...Switches });

/** The tools of one MCP server. They are always asked about unless the toolset says otherwise. */
const McpToolset = z
  .strictObject({
    type: z.literal("mcp_toolset"),
    mcp_server_name: z.string().min(1).max(255),
    default_config: orNull(ToolDefaults),
    configs: z.array(McpToolConfig).max(256).nullish(),
  })
  .superRefine((toolset, context) => {
    const names = (toolset.configs ?? []).map((config) => config.name);
    for (const [index, name] of names.entries()) {
      if (names.indexOf(name) !== index) {
        context.addIssue({ code: "custom", path: ["configs", index, "name"], message: `${name} is configured twice` });
      }
    }
  })
  .openapi("McpToolset");

const Tool = z.discriminatedUnion("type", [AgentToolset, CustomTool, McpToolset]);
export type Tool = z.infer<typeof Tool>;

const RESERVED = new Set<string>([...WORKER_TOOLS, ...WEB_TOOLS]);

/** All tools of an agent: at most 256 over all toolsets, names unique, custom names apart from the built-in ones. */
export const Tools = z
  .array(Tool)
  .max(256, "an agent has at most 256 tools")
  .superRefine((tools, context) => {
    const issue = (path: PropertyKey[], message: string) => context.addIssue({ code: "custom", path, message });
    const names = new Set<string>();
    const servers = new Set<string>();
    let toolsets = 0;
    let count = 0;
    for (const [index, tool] of tools.entries()) {
      switch (tool.type) {
        case "agent_toolset_20260401":
          toolsets += 1;
          count += RESERVED.size;
          if (toolsets > 1) {
            issue([index], "agent_toolset_20260401 may appear once");
          }
          break;
        case "mcp_toolset":
          count += Math.max(1, tool.configs?.length ?? 0);
          if (servers.has(tool.mcp_server_name)) {
            issue([index, "mcp_server_name"], `${tool.mcp_server_name} has two toolsets`);
          }
          servers.add(tool.mcp_server_name);
          break;
        case "custom":
          count += 1;
          if (RESERVED.has(tool.name) || tool.name.startsWith("mcp__")) {
            issue([index, "name"], `${tool.name} is a reserved tool name`);
          } else if (names.has(tool.name)) {
            issue([index, "name"], `${tool.name} is defined twice`);
          }
          names.add(tool.name);
          break;
      }
    }
    if (count > 256) {
      issue([], `an agent has at most 256 tools over all toolsets; these are ${count}`);
    }
  });

/** The built-in tools of the API's responses. A web tool's config keeps what the agent said of it. */
export interface ResolvedToolset {
  readonly type: "agent_toolset_20260401";
  readonly default_config: ResolvedSwitches;
  readonly configs: readonly ({ readonly name: string; readonly type: string } & ResolvedSwitches &
    WebFetchSettings &
    WebSearchSettings)[];
}

/** A tool of the API's responses: every default resolved. */
export type ResolvedTool =
  | ResolvedToolset
  | {
      readonly type: "mcp_toolset";
      readonly mcp_server_name: string;
      readonly default_config: ResolvedSwitches;
      readonly configs: readonly ({ readonly name: string } & ResolvedSwitches)[];
    }
  | z.infer<typeof CustomTool>;

export interface ResolvedSwitches {
  readonly enabled: boolean;
  readonly permission_policy: { readonly type: PolicyType };
}

const ResolvedSwitchesSchema = { enabled: z.boolean(), permission_policy: PermissionPolicy };

/** A tool as the API answers it. */
export const AnsweredTool = z
  .discriminatedUnion("type", [
    z.object({
      type: z.literal("agent_toolset_20260401"),
      default_config: z.object(ResolvedSwitchesSchema),
      configs: z.array(z.looseObject({ name: z.string(), type: z.string(), ...ResolvedSwitchesSchema })),
    }),
    z.object({
      type: z.literal("mcp_toolset"),
      mcp_server_name: z.string(),
      default_config: z.object(ResolvedSwitchesSchema),
      configs: z.array(z.object({ name: z.string(), ...ResolvedSwitchesSchema })),
    }),
    CustomTool,
  ])
  .openapi("Tool");
