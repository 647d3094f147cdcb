import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { configuredModel } from "./configured-model.ts";

/** Secrets Manager; the model's endpoint is a `fetch` that refuses and remembers the key it was shown. */
let key = "sk-first";
let asked: unknown[] = [];
const secrets = createServer(async (request, response) => {
  const chunks = await request.toArray();
  asked.push(JSON.parse(Buffer.concat(chunks).toString()));
  response.setHeader("content-type", "application/x-amz-json-1.1");
  response.end(JSON.stringify({ SecretString: `${key}\n` }));
});
const clock = vi.useFakeTimers({ toFake: ["Date"] });
const shown: (string | null)[] = [];

beforeAll(async () => {
  secrets.listen(0, "127.0.0.1");
  await once(secrets, "listening");
  const environment = {
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(secrets.address() as AddressInfo).port}`,
    MANGO_MODEL_BASE_URL: "https://model.example",
    MANGO_MODEL_AUTH: "authorization-bearer",
    MANGO_MODEL_SECRET_ARN: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:model",
  };
  for (const [name, value] of Object.entries(environment)) {
    vi.stubEnv(name, value);
  }
  vi.stubGlobal("fetch", async (_: unknown, init: RequestInit) => {
    shown.push(new Headers(init.headers).get("authorization"));
    return Response.json({ type: "error", error: { type: "authentication_error", message: "no" } }, { status: 401 });
  });
});

afterAll(() => {
  vi.useRealTimers();
  secrets.close();
});

async function ask(): Promise<void> {
  const model = await configuredModel();
  await expect(model.stream({ body: "{}", signal: AbortSignal.timeout(5000) })).rejects.toMatchObject({ status: 401 });
}

test("the key comes from Secrets Manager, once for a warm environment, and anew after five minutes", async () => {
  await ask();
  key = "sk-second";
  await ask();
  expect(asked).toEqual([{ SecretId: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:model" }]);

  clock.setSystemTime(Date.now() + 5 * 60_000 + 1);
  await ask();

  expect(asked).toHaveLength(2);
  expect(shown).toEqual(["Bearer sk-first", "Bearer sk-first", "Bearer sk-second"]);
});

test("a secret without a key is refused before anything is sent", async () => {
  key = "";
  asked = [];
  clock.setSystemTime(Date.now() + 10 * 60_000);

  await expect(configuredModel()).rejects.toThrow("The model API key is empty");
});
