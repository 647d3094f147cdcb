/** What the properties are tried on: the POST routes with a valid body each, any JSON, and bodies with one change. */
import fc from "fast-check";
import { customTool } from "./driver.ts";

/** Ids of things that exist, filled in by the test. */
export const known = {
  agent: "",
  archived: "",
  environment: "",
  session: "",
  ended: "",
  work: "work_nothing",
  key: "ekey_nothing",
};

const AGENT = {
  name: "A",
  model: { id: "m", effort: "low" },
  system: "S",
  description: "D",
  tools: [
    customTool("lookup"),
    {
      type: "agent_toolset_20260401",
      default_config: { enabled: true },
      configs: [{ name: "bash", enabled: true, permission_policy: { type: "always_ask" } }],
    },
    { type: "mcp_toolset", mcp_server_name: "issues", default_config: { enabled: false }, configs: [{ name: "list" }] },
  ],
  mcp_servers: [{ type: "url", name: "issues", url: "https://mcp.example/mcp" }],
  metadata: { a: "1" },
};
const EVENTS = [
  {
    type: "user.message",
    content: [
      { type: "text", text: "x" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "x" }, title: "T", context: "C" },
    ],
  },
  { type: "user.tool_confirmation", tool_use_id: "sevt_1", result: "deny", deny_message: "No." },
  { type: "user.tool_result", tool_use_id: "sevt_1", content: [{ type: "text", text: "x" }], is_error: true },
  {
    type: "user.custom_tool_result",
    custom_tool_use_id: "sevt_1",
    content: [
      {
        type: "search_result",
        source: "s",
        title: "t",
        content: [{ type: "text", text: "x" }],
        citations: { enabled: true },
      },
    ],
  },
  { type: "user.define_outcome", description: "d", rubric: { type: "text", content: "r" } },
  { type: "system.message", content: [{ type: "text", text: "x" }] },
];

export interface Route {
  readonly path: () => string;
  readonly valid: () => unknown;
}
/** Every POST route of the resources; the sessions and events that runs create are deleted from no table. */
export const ROUTES: Readonly<Record<string, Route>> = {
  "create an agent": { path: () => "/v1/agents", valid: () => AGENT },
  "update an agent": { path: () => `/v1/agents/${known.agent}`, valid: () => AGENT },
  "archive an agent": { path: () => `/v1/agents/${known.archived}/archive`, valid: () => ({}) },
  "create an environment": {
    path: () => "/v1/environments",
    valid: () => ({
      name: "E",
      config: { type: "self_hosted" },
      description: "D",
      metadata: { a: "1" },
      scope: "account",
    }),
  },
  "update an environment": {
    path: () => `/v1/environments/${known.environment}`,
    valid: () => ({ name: "E", config: { type: "self_hosted" }, description: null, metadata: { a: null } }),
  },
  "create a session": {
    path: () => "/v1/sessions",
    valid: () => ({
      agent: {
        type: "agent_with_overrides",
        id: known.agent,
        version: 1,
        model: "m",
        system: null,
        tools: AGENT.tools,
        mcp_servers: AGENT.mcp_servers,
        skills: [],
      },
      environment_id: known.environment,
      title: "T",
      metadata: { a: "1" },
      vault_ids: [],
      resources: [],
      budget: null,
      initial_events: [],
    }),
  },
  "update a session": {
    path: () => `/v1/sessions/${known.session}`,
    valid: () => ({
      title: "T",
      metadata: { a: null },
      agent: { tools: AGENT.tools, mcp_servers: AGENT.mcp_servers },
      vault_ids: [],
    }),
  },
  "archive a session": { path: () => `/v1/sessions/${known.ended}/archive`, valid: () => ({}) },
  "send events": { path: () => `/v1/sessions/${known.session}/events`, valid: () => ({ events: EVENTS.slice(0, 1) }) },
  "send answers": {
    path: () => `/v1/sessions/${known.session}/events`,
    valid: () => ({ events: EVENTS.slice(1) }),
  },
  "ack a work item": { path: () => `/v1/environments/${known.environment}/work/${known.work}/ack`, valid: () => ({}) },
  heartbeat: { path: () => `/v1/environments/${known.environment}/work/${known.work}/heartbeat`, valid: () => ({}) },
  "create an environment key": {
    path: () => `/v1/environments/${known.environment}/keys`,
    valid: () => ({ name: "K" }),
  },
  "rotate an environment key": {
    path: () => `/v1/environments/${known.environment}/keys/${known.key}/rotate`,
    valid: () => ({ overlap_seconds: 60 }),
  },
  "update a work item": {
    path: () => `/v1/environments/${known.environment}/work/${known.work}`,
    valid: () => ({ metadata: { a: "1", b: null } }),
  },
  "fail a work item": {
    path: () => `/v1/environments/${known.environment}/work/${known.work}/fail`,
    valid: () => ({ message: "M" }),
  },
  "stop a work item": {
    path: () => `/v1/environments/${known.environment}/work/${known.work}/stop`,
    valid: () => ({ force: true }),
  },
};

/** JSON with the keys and the values that the schemas know, so that it gets past the first check. */
const KEYS = [
  "name",
  "model",
  "id",
  "type",
  "tools",
  "configs",
  "metadata",
  "version",
  "agent",
  "environment_id",
  "events",
  "content",
  "text",
  "source",
  "initial_events",
  "system",
  "config",
  "title",
  "tool_use_id",
  "result",
  "__proto__",
  "constructor",
];
const VALUES = [
  "",
  "m",
  "agent",
  "custom",
  "user.message",
  "user.tool_result",
  "text",
  "image",
  "base64",
  "self_hosted",
  "\u0000",
  "\uD800",
  "\u{1F96D}",
  "%00",
  "9".repeat(400),
];
const leaf = fc.oneof(
  fc.constantFrom(null, true, false, 0, -1, 1.5, 1e308, Number.MAX_SAFE_INTEGER + 1, [], {}),
  fc.constantFrom(...VALUES),
  fc.string({ unit: "binary", maxLength: 30 }),
);
export const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "medium", withCrossShrink: true },
    leaf,
    fc.array(tie("tree"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...KEYS), fc.string({ maxLength: 8 })), tie("tree"), { maxKeys: 6 }),
  ),
}));

/** Bodies as text: JSON of ours, any JSON, and what is no JSON at all. */
export const anyBody = fc.oneof(
  tree.map((value) => JSON.stringify(value)),
  fc.json({ maxDepth: 4 }),
  fc.string({ unit: "binary", maxLength: 40 }),
);
/** Where to change a body, how, and to what. */
export const anyChange = fc.tuple(
  fc.array(fc.nat(7), { minLength: 1, maxLength: 6 }),
  fc.constantFrom("replace", "remove", "add", "double"),
  tree,
);

/** A copy with one thing changed, somewhere on the way that the numbers choose. */
export function mutated(whole: unknown, where: readonly number[], how: string, value: unknown): unknown {
  const copy = structuredClone(whole) as Record<string, unknown>;
  let node: Record<string, unknown> = copy;
  for (const [depth, step] of where.entries()) {
    const keys = Object.keys(node);
    const key = keys[step % Math.max(keys.length, 1)];
    if (key === undefined) break;
    const child = node[key];
    if (depth < where.length - 1 && typeof child === "object" && child !== null) {
      node = child as Record<string, unknown>;
      continue;
    }
    if (how === "replace") node[key] = value;
    else if (how === "remove" && !Array.isArray(node)) delete node[key];
    else if (how === "add") node["extra"] = value;
    else node[key] = [child, child];
    break;
  }
  return copy;
}
