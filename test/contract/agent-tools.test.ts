import { afterAll, beforeAll, describe, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Api, apiOf, expectRefused } from "./api.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
});
afterAll(() => server.close());

const TOOLSET = "agent_toolset_20260401";
const custom = (name: string, input_schema: object = { type: "object" }) => ({
  type: "custom",
  name,
  description: "A tool.",
  input_schema,
});
const server1 = (name: string) => ({ type: "url", name, url: `https://${name}.example/mcp` });
const mcpToolset = (mcp_server_name: string, more: object = {}) => ({ type: "mcp_toolset", mcp_server_name, ...more });

const create = (tools: readonly object[], mcp_servers: readonly object[] = []) =>
  api.write("/v1/agents", { name: "A", model: "m", tools, mcp_servers });
const refused = (
  tools: readonly object[],
  status: number,
  names?: string | RegExp,
  mcp_servers: readonly object[] = [],
) => expectRefused(server, () => api.post("/v1/agents", { name: "A", model: "m", tools, mcp_servers }), status, names);
/** A toolset with one config: as it comes back, or how it is refused. */
const config = async (fields: object) => (await create([{ type: TOOLSET, configs: [fields] }])).tools[0]?.configs[0];
const refusedConfig = (fields: object, status: number, names?: string | RegExp) =>
  refused([{ type: TOOLSET, configs: [fields] }], status, names);

const ALLOW = { type: "always_allow" };
const ASK = { type: "always_ask" };

describe("the built-in toolset", () => {
  verifies("agents:toolset:resolved", "nothing said", async () => {
    expect((await create([{ type: TOOLSET }])).tools).toMatchObject([
      { type: TOOLSET, default_config: { enabled: true, permission_policy: ALLOW }, configs: expect.any(Array) },
    ]);
  });
  verifies("agents:toolset:resolved", "configs inherit what they leave out", async () => {
    const default_config = { enabled: false, permission_policy: ASK };
    const configs = [{ name: "bash", enabled: true }, { name: "read", permission_policy: ALLOW }, { name: "grep" }];
    const [toolset] = (await create([{ type: TOOLSET, default_config, configs }])).tools;
    expect(toolset?.["default_config"]).toEqual(default_config);
    expect(toolset?.configs.filter(({ name }) => ["bash", "read", "grep"].includes(name))).toMatchObject([
      { name: "bash", enabled: true, permission_policy: ASK },
      { name: "read", enabled: false, permission_policy: ALLOW },
      { name: "grep", enabled: false, permission_policy: ASK },
    ]);
  });

  verifies("agents:toolset:config-type", "may be sent, when equal", async () => {
    await config({ name: "bash", type: "bash" });
    await refusedConfig({ name: "bash", type: "read" }, 400, "type");
  });
  verifies("agents:toolset:config-type", "comes back", async () => {
    expect(await config({ name: "bash" })).toMatchObject({ name: "bash", type: "bash" });
  });

  for (const name of ["bash", "edit", "read", "write", "glob", "grep", "web_fetch", "web_search"]) {
    verifies("agents:toolset:names", name, async () => {
      expect(await config({ name })).toMatchObject({ name, enabled: true, permission_policy: ALLOW });
    });
  }
  verifies("agents:toolset:names", "no other", async () => {
    for (const name of ["str_replace", "Bash", "", null]) await refusedConfig({ name }, 400, "name");
    await refusedConfig({ enabled: true }, 400, "name");
  });

  verifies("agents:toolset:nulls", async () => {
    expect((await create([{ type: TOOLSET, default_config: null }])).tools[0]?.["default_config"]).toEqual({
      enabled: true,
      permission_policy: ALLOW,
    });
    const nothing = { enabled: null, permission_policy: null };
    expect((await create([{ type: TOOLSET, default_config: nothing }])).tools[0]?.["default_config"]).toEqual({
      enabled: true,
      permission_policy: ALLOW,
    });
    expect(await config({ name: "bash", ...nothing })).toMatchObject({ enabled: true, permission_policy: ALLOW });
  });
});

describe("web tools", () => {
  const domains = (n: number) => Array.from({ length: n }, (_, i) => `host${i}.example.com`);
  for (const field of ["allowed_domains", "blocked_domains"]) {
    verifies("agents:toolset:web-fetch", field, async () => {
      expect(await config({ name: "web_fetch", [field]: domains(64) })).toMatchObject({ [field]: domains(64) });
      for (const bad of [
        [],
        domains(65),
        ["https://a.example"],
        ["a.example/path"],
        ["a.example:80"],
        [""],
        "a.example",
      ]) {
        await refusedConfig({ name: "web_fetch", [field]: bad }, 400, field);
      }
    });
  }
  verifies("agents:toolset:web-fetch", "allowed and blocked exclude each other", async () => {
    const both = { allowed_domains: ["a.example"], blocked_domains: ["b.example"] };
    await refusedConfig({ name: "web_fetch", ...both }, 400, /domains/);
    await refusedConfig({ name: "web_search", ...both }, 400, /domains/);
  });
  verifies("agents:toolset:web-fetch", "max_content_tokens", async () => {
    expect(await config({ name: "web_fetch", max_content_tokens: 1000 })).toMatchObject({ max_content_tokens: 1000 });
    for (const bad of [0, -1, 1.5, "10"]) {
      await refusedConfig({ name: "web_fetch", max_content_tokens: bad }, 400, "max_content_tokens");
    }
    await refusedConfig({ name: "bash", max_content_tokens: 1000 }, 400, "max_content_tokens");
  });

  const urlSources = (url_sources: object) => config({ name: "web_fetch", url_sources });
  verifies("agents:toolset:url-sources", "bare", async () => {
    const sources = { user_input: "all", client_tool_results: "none", server_tool_results: "all" };
    expect(await urlSources(sources)).toMatchObject({
      url_sources: {
        user_input: { type: "all" },
        client_tool_results: { type: "none" },
        server_tool_results: { type: "all" },
      },
    });
  });
  verifies("agents:toolset:url-sources", "as objects", async () => {
    const only = { type: "only", tools: [{ type: "tool_reference", name: "web_search" }] };
    const except = { type: "except", tools: [{ type: "tool_reference", name: "web_fetch" }] };
    const sources = { user_input: { type: "none" }, server_tool_results: only };
    expect(await urlSources(sources)).toMatchObject({ url_sources: sources });
    expect(await urlSources({ server_tool_results: except })).toMatchObject({
      url_sources: { server_tool_results: except },
    });
  });

  verifies("agents:toolset:web-search", async () => {
    const location = { type: "approximate", city: "Delft", country: "NL", region: "ZH", timezone: "Europe/Amsterdam" };
    const fields = { blocked_domains: ["a.example/path/x"], user_location: location };
    expect(await config({ name: "web_search", ...fields })).toMatchObject(fields);
    await refusedConfig({ name: "web_search", allowed_domains: ["https://a.example"] }, 400, "allowed_domains");
    await refusedConfig({ name: "web_search", user_location: { type: "exact" } }, 400, "user_location");
    await refusedConfig({ name: "web_search", user_location: { city: "Delft" } }, 400, "user_location");
    await refusedConfig({ name: "web_search", user_location: { ...location, street: "x" } }, 400, "street");
  });
});

describe("custom tools", () => {
  verifies("agents:custom:name", "accepted", async () => {
    const names = ["a", "A-b_9", "n".repeat(128)];
    expect((await create(names.map((name) => custom(name)))).tools.map(({ name }) => name)).toEqual(names);
  });
  for (const name of ["", "n".repeat(129), "a b", "a.b", "é", "bash", "web_search", "mcp__issues__list"]) {
    verifies("agents:custom:name", `not ${JSON.stringify(name.slice(0, 20))}`, async () => {
      await refused([custom(name)], 400, "name");
    });
  }
  verifies("agents:custom:name", "not repeated", async () => {
    await refused([custom("twice"), custom("once"), custom("twice")], 400, "twice");
  });

  verifies("agents:custom:schema-kept", async () => {
    const schema = {
      type: "object",
      title: "T",
      properties: {
        z: { type: "string", enum: ["x"] },
        a: { anyOf: [{ type: "null" }, { type: "number" }] },
        "o.k-_9": { type: "object", properties: {} },
      },
      required: ["z"],
      additionalProperties: false,
    };
    const [tool] = (await create([custom("t", schema)])).tools;
    expect(tool).toEqual(custom("t", schema));
    expect(JSON.stringify(tool?.["input_schema"])).toBe(JSON.stringify(schema));
  });
  for (const [title, schema] of [
    ["no type", {}],
    ["an array", { type: "array" }],
    ["a $ref", { type: "object", $ref: "#/x" }],
    ["a nested $ref", { type: "object", properties: { a: { $ref: "#/x" } } }],
    ["a $ref in items", { type: "object", properties: { a: { type: "array", items: { $ref: "#/x" } } } }],
    ["oneOf on top", { type: "object", oneOf: [{}] }],
    ["anyOf on top", { type: "object", anyOf: [{}] }],
    ["allOf on top", { type: "object", allOf: [{}] }],
  ] as const) {
    verifies("agents:custom:schema", title, async () => {
      await refused([custom("t", schema)], 400, "input_schema");
    });
  }
  for (const name of ["p".repeat(65), "a b", "a$", ""]) {
    verifies("agents:custom:property-names", `not ${JSON.stringify(name.slice(0, 10))}`, async () => {
      await refused([custom("t", { type: "object", properties: { [name]: { type: "string" } } })], 400, "input_schema");
    });
  }
});

describe("limits and MCP", () => {
  const many = (n: number) => Array.from({ length: n }, (_, i) => custom(`t${i}`));
  verifies("agents:tools:limit", async () => {
    expect((await create(many(256))).tools).toHaveLength(256);
    await refused(many(257), 400, "256");
  });
  verifies("agents:tools:limit", "the tools of the built-in toolset count", async () => {
    await refused([{ type: TOOLSET }, ...many(249)], 400, "256");
    await create([{ type: TOOLSET }, ...many(248)]);
  });

  verifies("agents:mcp:toolset", async () => {
    const configs = [
      { name: "list", permission_policy: ALLOW },
      { name: "drop", enabled: false },
    ];
    const agent = await create([mcpToolset("issues", { configs })], [server1("issues")]);
    expect(agent.tools).toEqual([
      {
        type: "mcp_toolset",
        mcp_server_name: "issues",
        default_config: { enabled: true, permission_policy: ASK },
        configs: [
          { name: "list", enabled: true, permission_policy: ALLOW },
          { name: "drop", enabled: false, permission_policy: ASK },
        ],
      },
    ]);
    expect(agent["mcp_servers"]).toEqual([server1("issues")]);
  });

  verifies("agents:mcp:cross-check", async () => {
    await refused([], 400, "issues", [server1("issues")]);
    await refused([mcpToolset("issues")], 400, "issues");
    await refused([mcpToolset("issues")], 400, "other", [server1("issues"), server1("other")]);
  });

  const servers = (n: number) => Array.from({ length: n }, (_, i) => server1(`s${i}`));
  verifies("agents:mcp:limits", "20 servers", async () => {
    const toolsets = (n: number) => servers(n).map(({ name }) => mcpToolset(name));
    expect((await create(toolsets(20), servers(20)))["mcp_servers"]).toHaveLength(20);
    await refused(toolsets(21), 400, "20", servers(21));
  });
  for (const [title, mcpServer] of [
    ["an empty name", { ...server1("x"), name: "" }],
    ["a name of 256", { ...server1("x"), name: "n".repeat(256) }],
    ["a url of 2,049", { ...server1("x"), url: `https://a.example/${"p".repeat(2031)}` }],
    ["no url", { type: "url", name: "x" }],
    ["what is no url", { ...server1("x"), url: "not a url" }],
    ["a url that is not http", { ...server1("x"), url: "file:///etc/passwd" }],
    ["another type", { ...server1("x"), type: "stdio" }],
    ["an unknown field", { ...server1("x"), authorization_token: "t" }],
  ] as const) {
    verifies("agents:mcp:limits", title, async () => {
      await refused([mcpToolset(mcpServer.name)], 400, /mcp_server/, [mcpServer]);
    });
  }
  verifies("agents:mcp:limits", "unique names", async () => {
    await refused([mcpToolset("x")], 400, "x", [server1("x"), server1("x")]);
  });
});
