import { PassThrough } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import { gatewayEvent } from "./testing/gateway-event.ts";

/** What Lambda's runtime offers to functions that stream: it hands over the head, then bytes. */
interface Streamed {
  head: { statusCode: number; headers: Record<string, string> } | undefined;
  readonly body: PassThrough;
}

type Handler = (event: unknown, streamed: Streamed, context: unknown) => Promise<void>;

vi.stubGlobal("awslambda", {
  streamifyResponse: (handler: unknown) => handler,
  HttpResponseStream: {
    from(streamed: Streamed, head: NonNullable<Streamed["head"]>) {
      streamed.head = head;
      return streamed.body;
    },
  },
});

const fetch = vi.fn<(request: Request) => Promise<Response>>();
vi.doMock("./app.ts", () => ({ app: () => ({ fetch }) }));
const { handler } = (await import("./stream.lambda.ts")) as unknown as { handler: Handler };

const EVENT = gatewayEvent("GET", "/v1/sessions/sesn_1/events/stream");
const CONTEXT = { functionName: "stream", awsRequestId: "1" };

afterEach(() => fetch.mockReset());

async function text(body: PassThrough): Promise<string> {
  return Buffer.concat(await body.toArray()).toString();
}

test("status and headers go out first, then each frame as it comes", async () => {
  const frames = new TransformStream<Uint8Array, Uint8Array>();
  const more = frames.writable.getWriter();
  fetch.mockResolvedValue(new Response(frames.readable, { headers: { "content-type": "text/event-stream" } }));
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  const done = handler(EVENT, streamed, CONTEXT);
  await vi.waitFor(() => expect(streamed.head).toBeDefined());
  expect(streamed.head).toEqual({ statusCode: 200, headers: { "content-type": "text/event-stream" } });

  void more.write(Buffer.from(": one\n\n"));
  await vi.waitFor(() => expect(String(streamed.body.read())).toBe(": one\n\n"));
  void more.close();
  await done;
  expect(streamed.body.writableEnded).toBe(true);
});

test("a refusal is an ordinary answer", async () => {
  fetch.mockResolvedValue(Response.json({ type: "error" }, { status: 401 }));
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  await handler(EVENT, streamed, CONTEXT);

  expect(streamed.head?.statusCode).toBe(401);
  expect(await text(streamed.body)).toBe('{"type":"error"}');
});

test("what breaks before the first byte is an error answer", async () => {
  fetch.mockRejectedValue(new Error("Key (text)=(Hello) exists"));
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  await handler(EVENT, streamed, CONTEXT);

  expect(streamed.head).toMatchObject({ statusCode: 500, headers: { "request-id": "gateway-1" } });
  expect(JSON.parse(await text(streamed.body))).toMatchObject({ type: "error", error: { type: "api_error" } });
});

test("a client that has gone ends the app's stream with the next frame, at the latest a keep-alive", async () => {
  const frames = new TransformStream<Uint8Array, Uint8Array>();
  const more = frames.writable.getWriter();
  fetch.mockResolvedValue(new Response(frames.readable));
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  const done = handler(EVENT, streamed, CONTEXT);
  await vi.waitFor(() => expect(streamed.head).toBeDefined());
  streamed.body.destroy();
  void more.write(Buffer.from(": keep-alive\n\n"));

  await expect(done).rejects.toThrow();
  await expect(more.closed).rejects.toThrow();
});
