import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readSettings, SettingsError, settingsTable } from "./settings.ts";

const read = (environment: Record<string, string>) => readSettings(environment, "/project");

function refusal(environment: Record<string, string>): string {
  try {
    read(environment);
  } catch (error) {
    expect(error).toBeInstanceOf(SettingsError);
    return (error as Error).message;
  }
  throw new Error("the settings were accepted");
}

describe("settings", () => {
  test("have a default for everything", () => {
    expect(read({ PATH: "/bin" })).toEqual({
      port: 8787,
      host: "127.0.0.1",
      dataDir: "/project/.mango",
      apiKey: "sk-mango-local-development",
      databaseUrl: null,
      model: null,
      modelId: null,
      webFetch: null,
      worker: true,
      workspaceRoot: "/project/.mango/workspaces",
      tools: { launcher: "auto", network: "none", allowProcess: true },
      log: "text",
      auditRetentionDays: 30,
    });
  });

  test("are read from the environment", () => {
    const settings = read({
      MANGO_PORT: "0",
      MANGO_HOST: "0.0.0.0",
      MANGO_DATA_DIR: "/data",
      MANGO_API_KEY: "sk-0123456789abcdef",
      MANGO_DATABASE_URL: "postgres://me:secret@db.internal:5432/mango",
      MANGO_MODEL_BASE_URL: "http://127.0.0.1:9000",
      MANGO_MODEL_API_KEY: "model key",
      MANGO_MODEL_AUTH: "authorization-bearer",
      MANGO_MODEL_ID: "some-model",
      MANGO_WEB_FETCH: "managed",
      MANGO_WEB_FETCH_ALLOWED_DOMAINS: "a.example, b.example",
      MANGO_WEB_FETCH_PROXY: "http://me:secret@proxy.internal:3128",
      MANGO_WORKER: "off",
      MANGO_WORKSPACE_ROOT: "work",
      MANGO_WORKER_LAUNCHER: "docker",
      MANGO_WORKER_NETWORK: "host",
      MANGO_LOG: "json",
    });

    expect(settings).toEqual({
      port: 0,
      host: "0.0.0.0",
      dataDir: "/data",
      apiKey: "sk-0123456789abcdef",
      databaseUrl: "postgres://me:secret@db.internal:5432/mango",
      model: { baseUrl: "http://127.0.0.1:9000", apiKey: "model key", auth: "authorization-bearer", profile: null },
      modelId: "some-model",
      webFetch: {
        domains: { allowed: ["a.example", "b.example"], blocked: null },
        proxy: new URL("http://me:secret@proxy.internal:3128"),
      },
      worker: false,
      workspaceRoot: "/project/work",
      tools: { launcher: "docker", network: "host", allowProcess: false },
      log: "json",
      auditRetentionDays: 30,
    });
  });

  test("accept a database behind a socket", () => {
    const address = "postgresql:///mango?host=/var/run/postgresql";

    expect(read({ MANGO_DATABASE_URL: address }).databaseUrl).toBe(address);
  });

  test("keep workspaces in the data folder unless told otherwise", () => {
    expect(read({ MANGO_DATA_DIR: "/data" }).workspaceRoot).toBe("/data/workspaces");
  });

  test("do not mind the variables of the worker and of clients", () => {
    expect(() => read({ MANGO_ENVIRONMENT_KEY: "k", MANGO_ENVIRONMENT_ID: "env_1", MANGO_URL: "u" })).not.toThrow();
  });

  test.each([
    ["MANGO_PROT", "MANGO_PORT"],
    ["MANGO_DATABASE_URI", "MANGO_DATABASE_URL"],
    ["MANGO_MODEL_KEY", "MANGO_MODEL_ID"],
    ["MANGO_WORKSPACES_ROOT", "MANGO_WORKSPACE_ROOT"],
  ])("refuse the unknown name %s and offer %s", (unknown, known) => {
    expect(refusal({ [unknown]: "1" })).toBe(
      `Mango cannot start:\n  ${unknown} is not a setting; did you mean ${known}?`,
    );
  });

  test.each([
    ["MANGO_PORT", "65536", "must be a port, 0 to 65535"],
    ["MANGO_PORT", "", "must be a port, 0 to 65535"],
    ["MANGO_PORT", "80a", "must be a port, 0 to 65535"],
    ["MANGO_PORT", "-1", "must be a port, 0 to 65535"],
    ["MANGO_HOST", "", "must not be empty"],
    ["MANGO_API_KEY", "short", "must be 16 or more printable characters without spaces"],
    ["MANGO_DATABASE_URL", "mysql://db/mango", "must be a URL that starts with postgresql://"],
    ["MANGO_MODEL_BASE_URL", "localhost:9000", "must be a URL that starts with https:// or http://"],
    ["MANGO_WORKER", "yes", 'must be "on" or "off"'],
    ["MANGO_WORKER_LAUNCHER", "chroot", 'must be "auto" or "bwrap" or "docker" or "process"'],
    ["MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER", "yes", 'must be "1"'],
    ["MANGO_WEB_FETCH", "on", 'must be "native" or "managed"'],
    ["MANGO_LOG", "pretty", 'must be "text" or "json"'],
  ])("refuse %s=%s", (name, value, complaint) => {
    expect(refusal({ [name]: value })).toBe(`Mango cannot start:\n  ${name} ${complaint}`);
  });

  test.each([
    ["the offline model", {}, true],
    ["a real model", { MANGO_MODEL_BASE_URL: "http://model" }, false],
    [
      "a real model, with leave",
      { MANGO_MODEL_BASE_URL: "http://model", MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER: "1" },
      true,
    ],
  ])("let the tools of %s run without walls: %s", (_, environment, allowed) => {
    expect(read(environment as Record<string, string>).tools.allowProcess).toBe(allowed);
  });

  test("refuse a model's key or header without the endpoint it is for", () => {
    expect(refusal({ MANGO_MODEL_API_KEY: "k", MANGO_MODEL_AUTH: "x-api-key" })).toBe(
      "Mango cannot start:\n" +
        "  MANGO_MODEL_API_KEY needs MANGO_MODEL_BASE_URL, the endpoint it is for\n" +
        "  MANGO_MODEL_AUTH needs MANGO_MODEL_BASE_URL, the endpoint it is for",
    );
  });

  test("refuse a rule or a proxy for fetches that this server does not make", () => {
    expect(refusal({ MANGO_WEB_FETCH_BLOCKED_DOMAINS: "a.example", MANGO_WEB_FETCH_PROXY: "http://p.internal" })).toBe(
      "Mango cannot start:\n" +
        "  MANGO_WEB_FETCH_BLOCKED_DOMAINS needs MANGO_WEB_FETCH=managed\n" +
        "  MANGO_WEB_FETCH_PROXY needs MANGO_WEB_FETCH=managed",
    );
    expect(refusal({ MANGO_WEB_FETCH: "managed", MANGO_WEB_FETCH_ALLOWED_DOMAINS: "https://a.example" })).toBe(
      "Mango cannot start:\n  MANGO_WEB_FETCH_ALLOWED_DOMAINS must be host names, separated by commas",
    );
  });

  describe("of the model endpoint's profile", () => {
    const endpoint = { MANGO_MODEL_BASE_URL: "http://127.0.0.1:9000" };
    const folder = mkdtempSync(path.join(tmpdir(), "mango-profile-"));
    afterAll(() => rmSync(folder, { recursive: true }));

    test("are JSON, or the path of a file with it", () => {
      writeFileSync(path.join(folder, "profile.json"), '{"version":"from-file"}');
      const inline = read({ ...endpoint, MANGO_MODEL_PROFILE: '{"version":"inline"}' });
      expect(inline.model?.profile).toMatchObject({ version: "inline", native_web_search: false });
      const file = readSettings({ ...endpoint, MANGO_MODEL_PROFILE: "profile.json" }, folder);
      expect(file.model?.profile).toMatchObject({ version: "from-file" });
    });

    test("stop the start when a key is unknown, naming it", () => {
      writeFileSync(path.join(folder, "odd.json"), '{"version":"v","native_web_serach":true}');
      expect(refusal({ ...endpoint, MANGO_MODEL_PROFILE: '{"version":"v","native_web_serach":true}' })).toBe(
        "Mango cannot start:\n  MANGO_MODEL_PROFILE: native_web_serach is not a key of a profile",
      );
      expect(refusal({ ...endpoint, MANGO_MODEL_PROFILE: path.join(folder, "odd.json") })).toBe(
        "Mango cannot start:\n  MANGO_MODEL_PROFILE (the file): native_web_serach is not a key of a profile",
      );
      expect(refusal({ ...endpoint, MANGO_MODEL_PROFILE: "no-such-file" })).toBe(
        "Mango cannot start:\n  MANGO_MODEL_PROFILE is neither a JSON object nor the path of a file that can be read",
      );
    });

    test("need the endpoint", () => {
      expect(refusal({ MANGO_MODEL_PROFILE: '{"version":"v"}' })).toContain(
        "MANGO_MODEL_PROFILE needs MANGO_MODEL_BASE_URL",
      );
    });
  });

  test("name everything that is wrong at once, and no value of it", () => {
    const message = refusal({ MANGO_PROT: "1", MANGO_API_KEY: "hunter2", MANGO_LOG: "loud" });

    expect(message.split("\n")).toHaveLength(4);
    expect(message).not.toMatch(/hunter2|loud/);
  });

  test("are rendered as a table with a line for each", () => {
    const lines = settingsTable().split("\n");

    expect(lines.slice(0, 3)).toEqual([
      "| setting | default | what it is for |",
      "| --- | --- | --- |",
      "| `MANGO_PORT` | `8787` | Port of the HTTP API; `0` takes any that is free. |",
    ]);
    expect(lines).toHaveLength(2 + 21);
  });
});
