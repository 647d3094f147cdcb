/** A Messages endpoint over HTTPS. Repeats nothing by itself: retries belong to the turn's state machine. */
import { APIConnectionError, APIConnectionTimeoutError, APIError, BaseAnthropic } from "@anthropic-ai/sdk";
import { createParser } from "eventsource-parser";
import { MalformedStream } from "./block-assembly.ts";
import type { CapabilityProfile } from "./capability-profile.ts";
import { ErrorEvent, MessageAssembly } from "./message-assembly.ts";
import { type Model, ModelAborted, ModelError } from "./model.ts";
import { brokenRequest, errorFromAnswer, errorFromEvent, type Progress, requestIdOf } from "./model-errors.ts";
import { asRecord } from "./usage.ts";

export interface MessagesModelOptions {
  /** Without `/v1/messages`. */
  readonly baseURL: string;
  readonly apiKey: string;
  readonly auth: "x-api-key" | "authorization-bearer";
  /** What the endpoint is said to be able to do; unset: nothing. */
  readonly profile?: CapabilityProfile | undefined;
  readonly fetch?: typeof globalThis.fetch;
  /** How long to wait for the answer's head. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 15 * 60_000;
/** Far above any real response; bounds the memory that a runaway endpoint can take. */
const MAX_STREAM_CHARS = 64 * 1024 * 1024;
/** After `message_stop`: how long to wait for the end of the body, so that the connection can be used again. */
const DRAIN_MS = 1000;

/** All that Messages needs. The SDK's own and the environment's additions make some compatible endpoints refuse. */
const SENT_HEADERS = ["accept", "anthropic-version", "authorization", "content-type", "user-agent", "x-api-key"];

export function messagesModel(options: MessagesModelOptions): Model {
  checkOptions(options);
  const client = anthropicClient(options);
  const keyHeader = options.profile?.provider_idempotency?.header;
  return {
    provider: "messages",
    ...(options.profile !== undefined && { profile: options.profile }),
    async stream(request) {
      const assembly = new MessageAssembly(request.onPreview);
      let requestId: string | null = null;
      try {
        const answer = await client
          .post("/v1/messages", {
            // With a content type of its own the SDK sends a string as it is.
            body: request.body,
            headers: {
              "content-type": "application/json",
              ...(keyHeader !== undefined && { [keyHeader]: request.idempotencyKey ?? null }),
            },
            signal: request.signal,
          })
          .asResponse();
        requestId = requestIdOf(answer.headers);
        await readAnswer(answer, assembly);
        return assembly.finish(requestId);
      } catch (cause) {
        if (request.signal.aborted) throw new ModelAborted(assembly.usage);
        throw asModelError(cause, { usage: assembly.usage, requestId }, options.apiKey);
      }
    },
  };
}

function checkOptions({ baseURL, apiKey }: MessagesModelOptions): void {
  if (!/^https?:\/\//.test(baseURL) || !URL.canParse(baseURL)) {
    throw new TypeError("The model base URL is not an http or https URL.");
  }
  // The platform's own error for such a value quotes it.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError("The model API key is empty or has characters that no HTTP header can carry.");
  }
}

function anthropicClient(options: MessagesModelOptions) {
  const { baseURL, apiKey, auth, profile, fetch = globalThis.fetch, timeoutMs } = options;
  const sent = [...SENT_HEADERS, ...(profile?.provider_idempotency ? [profile.provider_idempotency.header] : [])];
  // The client without the methods of every resource, 340 KB of them: we post to one path.
  return new BaseAnthropic({
    baseURL,
    // Always given, also where it is not sent: without one the SDK looks for credentials on this machine.
    authToken: apiKey,
    webhookKey: null,
    maxRetries: 0,
    timeout: timeoutMs ?? TIMEOUT_MS,
    // The SDK's debug log holds whole requests: conversation text.
    logLevel: "off",
    openTelemetry: false,
    defaultHeaders: {
      "anthropic-version": "2023-06-01",
      ...(auth === "x-api-key" && { authorization: null, "x-api-key": apiKey }),
    },
    // A redirect would carry `x-api-key` to another host.
    fetchOptions: { redirect: "manual" },
    fetch: (url, init) => fetch(url, { ...init, headers: onlySent(sent, new Headers(init?.headers)) }),
  });
}

function onlySent(names: readonly string[], headers: Headers): Headers {
  const sent = new Headers();
  for (const name of names) {
    const value = headers.get(name);
    if (value !== null) sent.set(name, value);
  }
  return sent;
}

async function readAnswer(answer: Response, assembly: MessageAssembly): Promise<void> {
  if (!answer.body || /\b(json|html)\b/i.test(answer.headers.get("content-type") ?? "")) {
    await refuseNonStream(answer);
  } else {
    await readStream(answer.body, assembly);
    if (!assembly.complete) throw new MalformedStream("The stream ended without message_stop.");
  }
}

async function readStream(body: ReadableStream<Uint8Array>, assembly: MessageAssembly): Promise<void> {
  // Bytes that are no UTF-8 must not silently become U+FFFD in what is sent back.
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const parser = createParser({ onEvent: ({ data }) => assembly.add(data) });
  const reader = body.getReader();
  let length = 0;
  try {
    while (!assembly.complete) {
      const { done, value } = await reader.read();
      if (done) return;
      const text = decoder.decode(value, { stream: true });
      length += text.length;
      if (length > MAX_STREAM_CHARS) throw new MalformedStream("A response larger than any model writes.");
      parser.feed(text);
    }
  } finally {
    if (assembly.complete) void drain(reader);
    else void reader.cancel().catch(() => {});
  }
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  const giveUp = setTimeout(() => void reader.cancel().catch(() => {}), DRAIN_MS);
  try {
    while (!(await reader.read()).done);
  } catch {
    // The message is complete: what happens to the connection now concerns nobody.
  } finally {
    clearTimeout(giveUp);
  }
}

/** A success without a stream: another kind of server, or an error that came with status 200. */
async function refuseNonStream(answer: Response): Promise<never> {
  const body: unknown = await answer.json().catch(() => null);
  const event = asRecord(body);
  if (event["type"] === "error") throw new ErrorEvent(event);
  throw new ModelError("The model endpoint did not answer with a Messages stream.", {
    type: "model_request_failed_error",
    retryable: false,
    status: answer.status,
    requestId: requestIdOf(answer.headers),
  });
}

function asModelError(cause: unknown, progress: Progress, secret: string): ModelError {
  if (cause instanceof ModelError) return cause;
  if (cause instanceof ErrorEvent) return errorFromEvent(cause.event, progress);
  if (cause instanceof APIConnectionTimeoutError) {
    return brokenRequest("The model endpoint did not answer in time.", progress, cause);
  }
  if (cause instanceof APIConnectionError) {
    return brokenRequest("The model endpoint could not be reached.", progress, cause);
  }
  if (cause instanceof APIError && cause.status !== undefined) {
    const { status, headers, error: body } = cause;
    return errorFromAnswer({ status, headers: headers ?? new Headers(), body, secret });
  }
  return brokenRequest("The model's response broke off or could not be read.", progress, cause);
}
