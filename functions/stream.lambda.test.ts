import { PassThrough } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import { eventually } from "../test/eventually.ts";
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
/** What happened, in order. */
const order: string[] = [];
vi.doMock("./product.ts", () => ({ settle: async () => void order.push("settled") }));
const { handler } = (await import("./stream.lambda.ts")) as unknown as { handler: Handler };

const EVENT = gatewayEvent("GET", "/v1/sessions/sesn_1/events/stream");
const CONTEXT = { functionName: "stream", awsRequestId: "1" };

afterEach(() => {
  fetch.mockReset();
  order.length = 0;
});

async function text(body: PassThrough): Promise<string> {
  return Buffer.concat(await body.toArray()).toString();
}

test("status and headers go out first, then each frame as it comes", async () => {
  const frames = new TransformStream<Uint8Array, Uint8Array>();
  const more = frames.writable.getWriter();
  fetch.mockResolvedValue(new Response(frames.readable, { headers: { "content-type": "text/event-stream" } }));
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  const done = handler(EVENT, streamed, CONTEXT);
  await eventually(() => expect(streamed.head).toBeDefined());
  expect(streamed.head).toEqual({ statusCode: 200, headers: { "content-type": "text/event-stream" } });

  void more.write(Buffer.from(": one\n\n"));
  await eventually(() => expect(String(streamed.body.read())).toBe(": one\n\n"));
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

/** The app's stream, which says what becomes of it. */
function appStreams(): ReadableStreamDefaultController<Uint8Array> {
  let controls: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controls = controller;
    },
    cancel: () => void order.push("cancelled"),
  });
  fetch.mockResolvedValue(new Response(body));
  return controls ?? expect.fail("not started");
}

test("what the end of a stream sets off has been sent before the environment is frozen", async () => {
  const frames = appStreams();
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  const done = handler(EVENT, streamed, CONTEXT);
  frames.enqueue(Buffer.from("retry: 500\n\n"));
  await eventually(() => expect(String(streamed.body.read())).toBe("retry: 500\n\n"));
  expect(order).toEqual([]);
  frames.close();
  await done;

  expect(order).toEqual(["settled"]);
});

test("so has what the app does when its client has gone", async () => {
  const frames = appStreams();
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  const done = handler(EVENT, streamed, CONTEXT);
  await eventually(() => expect(streamed.head).toBeDefined());
  streamed.body.destroy();
  frames.enqueue(Buffer.from(": keep-alive\n\n"));

  await expect(done).rejects.toThrow();
  // A read that was under way is over too, and waits once more.
  expect([...new Set(order)]).toEqual(["cancelled", "settled"]);
});

test("a client that has gone ends the app's stream with the next frame, at the latest a keep-alive", async () => {
  const frames = new TransformStream<Uint8Array, Uint8Array>();
  const more = frames.writable.getWriter();
  fetch.mockResolvedValue(new Response(frames.readable));
  const streamed: Streamed = { head: undefined, body: new PassThrough() };

  const done = handler(EVENT, streamed, CONTEXT);
  await eventually(() => expect(streamed.head).toBeDefined());
  streamed.body.destroy();
  void more.write(Buffer.from(": keep-alive\n\n"));

  await expect(done).rejects.toThrow();
  await expect(more.closed).rejects.toThrow();
});
