import { z } from "@hono/zod-openapi";
import { unsupported } from "./schema.ts";

/** The built-in tools. The first six run on the worker; the web tools run inside the provider's request. */
export const WORKER_TOOLS = ["bash", "read", "write", "edit", "glob", "grep"] as const;
export const WEB_TOOLS = ["web_fetch", "web_search"] as const;
export type WorkerTool = (typeof WORKER_TOOLS)[number];

export const PermissionPolicy = z
  .discriminatedUnion("type", [
    z.strictObject({ type: z.literal("always_allow") }),
    z.strictObject({ type: z.literal("always_ask") }),
    z.strictObject({ type: z.literal("auto") }),
  ])
  .superRefine((policy, context) => {
    if (policy.type === "auto") {
      context.addIssue({
        code: "custom",
        ...unsupported(
          "the auto permission policy",
          "the auto permission policy is not supported by this server yet; use always_allow or always_ask",
        ),
      });
    }
  })
  .openapi("PermissionPolicy", {
    description: "Who decides about a call: nobody (always_allow) or a person (always_ask).",
  });

const BuiltinName = z.enum([...WORKER_TOOLS, ...WEB_TOOLS]);

const ToolDefaults = z.strictObject({
  enabled: z.boolean().optional(),
  permission_policy: PermissionPolicy.nullish(),
});

const ToolConfig = z
  .strictObject({
    name: BuiltinName,
    type: BuiltinName.optional(),
    enabled: z.boolean().optional(),
    permission_policy: PermissionPolicy.nullish(),
  })
  .superRefine((config, context) => {
    if (config.type !== undefined && config.type !== config.name) {
      context.addIssue({ code: "custom", path: ["type"], message: "type must equal name" });
    }
    if ((config.name === "web_search" || config.name === "web_fetch") && config.enabled === true) {
      context.addIssue({
        code: "custom",
        path: ["name"],
        ...unsupported(
          config.name,
          `${config.name} is not supported by this server yet; leave it out or set enabled to false`,
        ),
      });
    }
  });

export const AgentToolset = z
  .strictObject({
    type: z.literal("agent_toolset_20260401"),
    default_config: ToolDefaults.nullish(),
    configs: z.array(ToolConfig).max(8).nullish(),
  })
  .superRefine((toolset, context) => {
    const seen = new Set<string>();
    for (const [index, config] of (toolset.configs ?? []).entries()) {
      if (seen.has(config.name)) {
        context.addIssue({
          code: "custom",
          path: ["configs", index, "name"],
          message: `${config.name} is configured twice`,
        });
      }
      seen.add(config.name);
    }
  })
  .openapi("AgentToolset");

const InputSchema = z.looseObject({ type: z.literal("object") }).superRefine((schema, context) => {
  for (const keyword of ["oneOf", "anyOf", "allOf", "$ref"]) {
    if (keyword in schema) {
      context.addIssue({
        code: "custom",
        path: [keyword],
        message: `${keyword} is not allowed at the top of an input_schema`,
      });
    }
  }
});

export const CustomTool = z
  .strictObject({
    type: z.literal("custom"),
    name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, "name must be 1 to 128 of A-Z a-z 0-9 _ -"),
    description: z.string().max(10_000),
    input_schema: InputSchema,
  })
  .openapi("CustomTool");

const McpToolset = z
  .looseObject({ type: z.literal("mcp_toolset") })
  .refine(() => false, unsupported("MCP toolsets", "mcp_toolset is not supported by this server yet"));

export const Tool = z.discriminatedUnion("type", [AgentToolset, CustomTool, McpToolset]);

/** All tools of an agent: at most 256 over all toolsets, names unique, custom names apart from the built-in ones. */
export const Tools = z
  .array(Tool)
  .max(256)
  .superRefine((tools, context) => {
    const names = new Set<string>();
    let toolsets = 0;
    for (const [index, tool] of tools.entries()) {
      if (tool.type === "agent_toolset_20260401") {
        toolsets += 1;
        if (toolsets > 1) {
          context.addIssue({ code: "custom", path: [index], message: "agent_toolset_20260401 may appear once" });
        }
      } else if (tool.type === "custom") {
        const reserved =
          (BuiltinName.options as readonly string[]).includes(tool.name) || tool.name.startsWith("mcp__");
        if (reserved) {
          context.addIssue({ code: "custom", path: [index, "name"], message: `${tool.name} is a reserved tool name` });
        } else if (names.has(tool.name)) {
          context.addIssue({ code: "custom", path: [index, "name"], message: `${tool.name} is defined twice` });
        }
        names.add(tool.name);
      }
    }
  });

export type Tool = z.infer<typeof Tool>;
export type PolicyType = "always_allow" | "always_ask";

/** A tool of the API's response: every default resolved. */
export type ResolvedTool =
  | {
      readonly type: "agent_toolset_20260401";
      readonly default_config: ResolvedDefaults;
      readonly configs: readonly ({ readonly name: string } & ResolvedDefaults)[];
    }
  | z.infer<typeof CustomTool>;

interface ResolvedDefaults {
  readonly enabled: boolean;
  readonly permission_policy: { readonly type: PolicyType };
}
