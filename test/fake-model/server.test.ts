import { spawn } from "node:child_process";
import { once } from "node:events";
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { events, failure } from "./replies.ts";
import { type FakeModel, startFakeModel } from "./server.ts";

let fake: FakeModel;
afterEach(() => fake.close());

const READ = { name: "read", input_schema: { type: "object" as const, properties: {} } };

function stream(content: string) {
  const client = new Anthropic({ baseURL: fake.url, apiKey: "k", maxRetries: 0 });
  return client.messages.stream({
    model: "m",
    max_tokens: 500,
    tools: [READ],
    messages: [{ role: "user", content }],
  });
}

describe("the fake endpoint", () => {
  it("speaks the streaming format that the official client reads", async () => {
    fake = await startFakeModel();
    const message = await stream("read README.md").finalMessage();
    expect(message.content).toMatchObject([
      { type: "text", text: "I'll read README.md." },
      { type: "tool_use", name: "read", input: { file_path: "README.md" } },
    ]);
    expect(message.stop_reason).toBe("tool_use");
    expect(fake.requests[0]?.headers["x-api-key"] ?? fake.requests[0]?.headers.authorization).toContain("k");
  });

  it("plays its script and then answers by the rules", async () => {
    fake = await startFakeModel({ script: [failure(529, "overloaded_error", "Busy"), undefined] });
    await expect(stream("hi").finalMessage()).rejects.toThrow("Busy");
    expect((await stream("read a.md").finalMessage()).stop_reason).toBe("tool_use");
    expect((await stream("read a.md").finalMessage()).stop_reason).toBe("tool_use");
    expect(fake.count).toBe(3);
  });

  it("holds an answer until it is released", async () => {
    const gate = Promise.withResolvers<void>();
    fake = await startFakeModel({
      script: (_, n) =>
        n === 0 ? { steps: [{ until: gate.promise }, ...events('{"type":"ping"}').steps] } : undefined,
    });
    let answered = false;
    const answer = fetch(`${fake.url}/v1/messages`, { method: "POST", body: "{}" }).then(async (response) => {
      answered = true;
      return response.text();
    });
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(answered).toBe(false);
    gate.resolve();
    expect(await answer).toBe('event: ping\ndata: {"type":"ping"}\n\n');
  });

  it("gives one prepared answer to everything in fixed mode", async () => {
    fake = await startFakeModel({ fixed: "Always this." });
    const message = await stream("read README.md").finalMessage();
    expect(message.content).toMatchObject([{ type: "text", text: "Always this." }]);
    expect([fake.count, fake.requests.length]).toEqual([1, 0]);
  });

  it("refuses what is not a Messages request", async () => {
    fake = await startFakeModel();
    const wrongPath = await fetch(`${fake.url}/v1/models`);
    const wrongBody = await fetch(`${fake.url}/v1/messages`, { method: "POST", body: "?" });
    expect([wrongPath.status, wrongBody.status]).toEqual([404, 400]);
  });

  it("runs as a process that prints its URL", async () => {
    fake = await startFakeModel();
    const child = spawn(process.execPath, [`${import.meta.dirname}/main.ts`, "--port", "0", "--fixed"]);
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const { url } = JSON.parse(line.toString()) as { url: string };
    const answer = await fetch(`${url}/v1/messages`, { method: "POST", body: "{}" });
    expect(await answer.text()).toContain('"stop_reason":"end_turn"');
    child.kill("SIGTERM");
    const [code] = (await once(child, "exit")) as [number];
    expect(code).toBe(0);
  });
});
