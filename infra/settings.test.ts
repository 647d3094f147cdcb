import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readSettings } from "./settings.ts";

test("nothing has to be chosen", () => {
  const { context } = JSON.parse(readFileSync(new URL("../cdk.json", import.meta.url), "utf8")) as {
    context: Record<string, unknown>;
  };

  expect(readSettings({ ...context, "aws:cdk:bundling-stacks": ["**"] })).toEqual({
    stage: "dev",
    minCapacity: 0.5,
    maxCapacity: 8,
    natGateways: 1,
    retainData: true,
    modelBaseUrl: "https://api.anthropic.com",
    modelAuth: "x-api-key",
    streamLifeSeconds: 300,
    streamConcurrency: 200,
    apiConcurrency: 100,
    workConcurrency: 100,
  });
});

test("text from the command line is read as what it says", () => {
  const chosen = readSettings({ stage: "prod", minCapacity: "1.5", natGateways: "2", retainData: "false" });

  expect(chosen).toMatchObject({ stage: "prod", minCapacity: 1.5, natGateways: 2, retainData: false });
});

test.each([
  [{ stag: "prod" }, /stag: no such setting; there are stage, minCapacity/],
  [{ stage: "Prod_1" }, /stage: must be at most 16 lower-case letters/],
  [{ minCapacity: "0" }, /minCapacity: Too small: expected number to be >=0.5/],
  [{ minCapacity: "0.7" }, /minCapacity: .*multiple of 0.5/],
  [{ minCapacity: "16" }, /maxCapacity: is below minCapacity/],
  [{ natGateways: "0" }, /natGateways: Too small/],
  [{ retainData: "no" }, /retainData: Invalid input/],
  [{ modelBaseUrl: "http://model.example" }, /modelBaseUrl: must be a URL that starts with https/],
  [{ modelBaseUrl: "https://model.example:8443" }, /modelBaseUrl: must use port 443/],
  [{ streamLifeSeconds: "900" }, /streamLifeSeconds: Too big/],
  [{ alarmEmail: "me" }, /alarmEmail: Invalid email/],
])("%j is refused", (context, message) => {
  expect(() => readSettings(context)).toThrow(message);
});
