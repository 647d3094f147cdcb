import { expect, test } from "vitest";
import {
  FetchPageEnvironment,
  MigrationEnvironment,
  ModelEnvironment,
  PageCallerEnvironment,
  ProductEnvironment,
  readEnvironment,
} from "./environment.ts";

const COMPLETE = {
  AWS_REGION: "eu-central-1",
  MANGO_DATABASE_HOST: "proxy.example",
  MANGO_DATABASE_NAME: "mango",
  MANGO_DATABASE_USER: "mango_app",
  MANGO_LIVE_TABLE: "live",
  MANGO_RELAY_QUEUE_URL: "https://sqs.eu-central-1.amazonaws.com/123456789012/relay",
  MANGO_STATE_MACHINE_ARN: "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-dev-turn",
};

test("what is set is read, and what may be left out has its default", () => {
  expect(readEnvironment(ProductEnvironment, { ...COMPLETE, PATH: "/bin", LANG: "C" })).toEqual({
    ...COMPLETE,
    MANGO_DATABASE_PORT: 5432,
    MANGO_DATABASE_TLS: "on",
    MANGO_SCALE_TO_ZERO: "off",
    MANGO_WEB_FETCH: "native",
  });
});

test("everything that is missing is named at once", () => {
  const { MANGO_LIVE_TABLE, MANGO_DATABASE_HOST, ...rest } = COMPLETE;

  expect(() => readEnvironment(ProductEnvironment, rest)).toThrow(
    "MANGO_DATABASE_HOST is not set; MANGO_LIVE_TABLE is not set.",
  );
});

test.each([
  [ProductEnvironment, { ...COMPLETE, MANGO_DATABASE_TLS: "perhaps" }, "MANGO_DATABASE_TLS is malformed."],
  [ProductEnvironment, { ...COMPLETE, MANGO_DATABASE_PORT: "0" }, "MANGO_DATABASE_PORT is malformed."],
  [ProductEnvironment, { ...COMPLETE, MANGO_LIVE_TABLE: "" }, "MANGO_LIVE_TABLE is malformed."],
  [ProductEnvironment, { ...COMPLETE, MANGO_STATE_MACHINE_ARN: "turn" }, "MANGO_STATE_MACHINE_ARN is malformed."],
  [
    ProductEnvironment,
    { ...COMPLETE, MANGO_MODEL_PROFILE: '{"version":"v","native_web_serach":true}' },
    "MANGO_MODEL_PROFILE is malformed (native_web_serach is not a key of a profile).",
  ],
  // A misspelt name would silently leave the default in force.
  [
    ProductEnvironment,
    { ...COMPLETE, MANGO_DATABASE_TSL: "off" },
    "MANGO_DATABASE_TSL is not a variable of this program.",
  ],
  [
    ModelEnvironment,
    { MANGO_MODEL_BASE_URL: "file:///etc", MANGO_MODEL_SECRET_ARN: "a" },
    "MANGO_MODEL_BASE_URL is malformed.",
  ],
  [ModelEnvironment, { MANGO_MODEL_BASE_URL: "https://model.example" }, "MANGO_MODEL_SECRET_ARN is not set."],
  [PageCallerEnvironment, { MANGO_WEB_FETCH_ALLOWED_DOMAINS: "a.example" }, "MANGO_WEB_FETCH_FUNCTION is not set."],
  [
    PageCallerEnvironment,
    { MANGO_WEB_FETCH_FUNCTION: "fetch-page", MANGO_WEB_FETCH_BLOCKED_DOMAINS: "https://a.example" },
    "MANGO_WEB_FETCH_BLOCKED_DOMAINS is malformed",
  ],
  [FetchPageEnvironment, { MANGO_WEB_FETCH_PROXY: "socks5://proxy.example" }, "MANGO_WEB_FETCH_PROXY is malformed."],
  [MigrationEnvironment, COMPLETE, "MANGO_DATABASE_SECRET_ARN is not set."],
])("is refused %#", (schema, environment, message) => {
  expect(() => readEnvironment<never>(schema as never, environment)).toThrow(message);
});

test("a refusal quotes no value: it may be a key in the wrong place", () => {
  const environment = { ...COMPLETE, MANGO_DATABASE_TLS: "sk-secret" };

  expect(() => readEnvironment(ProductEnvironment, environment)).not.toThrow(/sk-secret/);
});
