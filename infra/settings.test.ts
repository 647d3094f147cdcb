import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readSettings, Settings } from "./settings.ts";

test("nothing has to be chosen", () => {
  const { context } = JSON.parse(readFileSync(new URL("../cdk.json", import.meta.url), "utf8")) as {
    context: Record<string, unknown>;
  };

  expect(readSettings({ ...context, "aws:cdk:bundling-stacks": ["**"] })).toEqual({
    stage: "dev",
    minCapacity: 0.5,
    maxCapacity: 8,
    scaleToZero: false,
    natGateways: 1,
    reserveConcurrency: true,
    ownEgress: false,
    retainData: true,
    modelBaseUrl: "https://api.anthropic.com",
    modelAuth: "x-api-key",
    webFetch: "native",
    streamLifeSeconds: 300,
    streamConcurrency: 200,
    apiConcurrency: 100,
    workConcurrency: 100,
  });
});

const CERTIFICATE = "arn:aws:acm:eu-central-1:123456789012:certificate/0a1b";

test.each([
  [
    { natGateways: "0", ownEgress: "true" },
    { natGateways: 0, minCapacity: 0.5 },
  ],
  [{ scaleToZero: "true" }, { scaleToZero: true, minCapacity: 0 }],
  [{ availabilityZones: "us-east-1b, us-east-1c" }, { availabilityZones: ["us-east-1b", "us-east-1c"] }],
  [
    { webFetch: "managed", webFetchAllowedDomains: "a.example, b.example", webFetchProxy: "http://proxy.example:3128" },
    { webFetchAllowedDomains: ["a.example", "b.example"], webFetchProxy: "http://proxy.example:3128" },
  ],
  [
    { webFetch: "managed", webFetchProxy: "{{resolve:secretsmanager:fetch-proxy}}" },
    { webFetchProxy: "{{resolve:secretsmanager:fetch-proxy}}" },
  ],
  // With a version: what makes CloudFormation ask for a secret that has changed.
  [
    { webFetch: "managed", webFetchProxy: "{{resolve:secretsmanager:fetch-proxy:SecretString:::0a1b2c3d-4e5f}}" },
    { webFetchProxy: "{{resolve:secretsmanager:fetch-proxy:SecretString:::0a1b2c3d-4e5f}}" },
  ],
  [
    { modelProfile: '{"version":"mine-1","native_web_search":true,"preserves_unknown_content_blocks":true}' },
    { modelProfile: { version: "mine-1", native_web_search: true, native_web_fetch: false } },
  ],
  [{ domainName: "api.example.com", certificateArn: CERTIFICATE }, { domainName: "api.example.com" }],
])("%j is a choice", (context, chosen) => {
  expect(readSettings(context)).toMatchObject(chosen);
});

test("every setting is documented, with its default where it has one", () => {
  const documented = readFileSync(new URL("../docs/aws.md", import.meta.url), "utf8");

  for (const [name, schema] of Object.entries(Settings.shape)) {
    const row = documented.split("\n").find((line) => line.startsWith(`| \`${name}\` |`));
    expect(row, `docs/aws.md has no row for ${name}`).toBeDefined();
    const fallback = schema.safeParse(undefined).data;
    if (fallback !== undefined) {
      expect(row).toContain(String(fallback));
    }
  }
});

test("every command that names a deployment's stack says of which stage it is: without it there is no such stack", () => {
  const documented = readFileSync(new URL("../docs/aws.md", import.meta.url), "utf8");
  const commands = [...documented.matchAll(/npx cdk (?:deploy|destroy) mango-(\w+)[^`\n]*/g)];

  expect(commands.length).toBeGreaterThan(2);
  for (const [command, stage] of commands) {
    expect(command).toContain(`-c stage=${stage}`);
  }
});

test("text from the command line is read as what it says", () => {
  const chosen = readSettings({ stage: "prod", minCapacity: "1.5", natGateways: "2", retainData: "false" });

  expect(chosen).toMatchObject({ stage: "prod", minCapacity: 1.5, natGateways: 2, retainData: false });
});

test.each([
  [{ stag: "prod" }, /stag: no such setting; there are stage, minCapacity/],
  [{ stage: "Prod_1" }, /stage: must be at most 16 lower-case letters/],
  // RDS takes neither for the name of a proxy.
  [{ stage: "prod--eu" }, /stage: must be at most 16 lower-case letters/],
  [{ stage: "prod-" }, /stage: must be at most 16 lower-case letters/],
  [{ stage: "a-stage-of-17-let" }, /stage: must be at most 16 lower-case letters/],
  [{ minCapacity: "0" }, /minCapacity: must be at least 0.5; a database that pauses needs scaleToZero/],
  [{ scaleToZero: "true", minCapacity: "1" }, /minCapacity: must be 0 with scaleToZero/],
  [{ minCapacity: "0.7" }, /minCapacity: .*multiple of 0.5/],
  [{ minCapacity: "16" }, /maxCapacity: is below minCapacity/],
  [{ availabilityZones: "us-east-1b" }, /availabilityZones: must be the names of two zones/],
  [{ availabilityZones: "us-east-1b,us-east-1b" }, /availabilityZones: must be the names of two zones/],
  [{ natGateways: "0" }, /natGateways: 0 leaves the functions without .* declare another way out with ownEgress=true/],
  [{ domainName: "api.example.com" }, /domainName, certificateArn: are needed together/],
  [
    { domainName: "https://api.example.com", certificateArn: CERTIFICATE },
    /domainName: must be a lower-case host name/,
  ],
  [{ domainName: "api.example.com", certificateArn: "mine" }, /certificateArn: must be the ARN of a certificate/],
  [{ retainData: "no" }, /retainData: Invalid input/],
  [{ modelBaseUrl: "http://model.example" }, /modelBaseUrl: must be a URL that starts with https/],
  [{ modelBaseUrl: "https://model.example:8443" }, /modelBaseUrl: must use port 443/],
  [{ emulatorDatabase: "postgres" }, /emulatorDatabase: must be a host and a port/],
  [{ streamLifeSeconds: "900" }, /streamLifeSeconds: Too big/],
  [{ modelProfile: "{" }, /modelProfile: is not JSON/],
  [
    { modelProfile: '{"version":"v","native_web_serach":true}' },
    /modelProfile: native_web_serach is not a key of a profile/,
  ],
  [{ webFetch: "on" }, /webFetch: Invalid option/],
  [
    { webFetchBlockedDomains: "a.example", webFetchProxy: "http://proxy.example:3128" },
    /webFetchBlockedDomains: needs webFetch=managed\n.*webFetchProxy: needs webFetch=managed/,
  ],
  [{ webFetch: "managed", webFetchAllowedDomains: "https://a.example" }, /webFetchAllowedDomains: must be host names/],
  // Lambda would refuse them, when the migrations have already run.
  [
    {
      webFetch: "managed",
      webFetchAllowedDomains: Array.from({ length: 100 }, (_, i) => `site-${i}.example`).join(),
      webFetchBlockedDomains: Array.from({ length: 100 }, (_, i) => `site-${i}.example`).join(),
    },
    /webFetchAllowedDomains, webFetchBlockedDomains: have more than 2000 characters together/,
  ],
  // It would stand in the template.
  [
    { webFetch: "managed", webFetchProxy: "http://me:secret@proxy.example" },
    /webFetchProxy: must be a URL without a pass/,
  ],
  [{ alarmEmail: "me" }, /alarmEmail: Invalid email/],
])("%j is refused", (context, message) => {
  expect(() => readSettings(context)).toThrow(message);
});
