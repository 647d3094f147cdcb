/** A server whose provider says what the test scripts, and the pieces of such scripts. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { CapabilityProfile } from "../../shared/model/capability-profile.ts";
import { messagesModel } from "../../shared/model/messages-model.ts";
import type { Model } from "../../shared/model/model.ts";
import type { FakeReply, FakeStep } from "../fake-model/replies.ts";
import { type FakeModel, startFakeModel } from "../fake-model/server.ts";
import { startTestServer, type TestServer, type TestServerOptions } from "../server.ts";

export interface ScriptedServer {
  readonly server: TestServer;
  /** A new provider that answers with these, then by the offline rules. */
  script(...replies: readonly FakeReply[]): Promise<FakeModel>;
  /** Any other endpoint as the provider. */
  pointTo(url: string): void;
  close(): Promise<void>;
}

export async function startScriptedServer(
  options: Pick<TestServerOptions, "worker" | "tools" | "database"> & { readonly profile?: CapabilityProfile } = {},
): Promise<ScriptedServer> {
  let current: Model | undefined;
  const providers: FakeModel[] = [];
  const pointTo = (url: string) => {
    current = messagesModel({ baseURL: url, apiKey: "provider-key", auth: "x-api-key" });
  };
  const { profile, ...rest } = options;
  const model: Model = {
    provider: "messages",
    ...(profile !== undefined && { profile }),
    stream: async (request) => required(current).stream(request),
  };
  const server = await startTestServer({ ...rest, model });
  return {
    server,
    pointTo,
    async script(...replies) {
      const provider = await startFakeModel({ script: replies });
      providers.push(provider);
      pointTo(provider.url);
      return provider;
    },
    async close() {
      await server.close();
      await Promise.all(providers.map((provider) => provider.close()));
    },
  };
}

function required(model: Model | undefined): Model {
  if (model === undefined) throw new Error("The test scripted no provider.");
  return model;
}

/** A block as the provider streams it: its opening, then its deltas, both as JSON text. */
export interface ScriptedBlock {
  readonly start: string;
  readonly deltas?: readonly string[];
  /** Holds the block's end back until this settles. */
  readonly until?: Promise<unknown>;
}

export const textBlock = (text: string): ScriptedBlock => ({
  start: '{"type":"text","text":""}',
  deltas: [JSON.stringify({ type: "text_delta", text })],
});

/** A call whose input is this JSON text, in two pieces. */
export function toolUse(id: string, name: string, input: object | string): ScriptedBlock {
  const text = typeof input === "string" ? input : JSON.stringify(input);
  const middle = Math.ceil(text.length / 2);
  const piece = (partial_json: string) => JSON.stringify({ type: "input_json_delta", partial_json });
  return {
    start: JSON.stringify({ type: "tool_use", id, name, input: {} }),
    deltas: [piece(text.slice(0, middle)), piece(text.slice(middle))],
  };
}

export function reply(stopReason: string, ...blocks: readonly ScriptedBlock[]): FakeReply {
  return streamed([...opening(), ...blocks.flatMap(blockEvents), ...ending(stopReason)]);
}

export const says = (text: string): FakeReply => reply("end_turn", textBlock(text));
export const calls = (...blocks: readonly ScriptedBlock[]): FakeReply => reply("tool_use", ...blocks);

/** An answer that holds its end back until the promise settles. */
export const held = (until: Promise<unknown>, text: string): FakeReply =>
  reply("end_turn", { ...textBlock(text), until });

export function refusal(details: object): FakeReply {
  const end = { type: "message_delta", delta: { stop_reason: "refusal", stop_details: details }, usage: USAGE };
  return streamed([...opening(), asStep(JSON.stringify(end)), asStep('{"type":"message_stop"}')]);
}

/** An endpoint that begins an answer and never ends it; `aborted` settles when the other side hangs up. */
export async function startSilentProvider(): Promise<{ url: string; aborted: Promise<void>; close(): void }> {
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const http = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const step of [...opening(), ...blockEvents(textBlock("Once upon"), 0).slice(0, 2)]) {
      if ("data" in step) response.write(`event: ${JSON.parse(step.data).type}\ndata: ${step.data}\n\n`);
    }
    response.once("close", resolve);
  });
  await new Promise<void>((listening) => http.listen(0, "127.0.0.1", listening));
  const close = () => {
    http.close();
    http.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, aborted, close };
}

const USAGE = { output_tokens: 7 };
const asStep = (data: string): FakeStep => ({ data });

const streamed = (steps: readonly FakeStep[]): FakeReply => ({ headers: { "request-id": "req_scripted" }, steps });

function opening(): FakeStep[] {
  const head = { id: "msg_1", type: "message", role: "assistant", model: "test-1", content: [], stop_reason: null };
  return [asStep(JSON.stringify({ type: "message_start", message: { ...head, usage: { input_tokens: 11 } } }))];
}

function ending(stopReason: string): FakeStep[] {
  const end = { type: "message_delta", delta: { stop_reason: stopReason, stop_sequence: null }, usage: USAGE };
  return [asStep(JSON.stringify(end)), asStep('{"type":"message_stop"}')];
}

function blockEvents(block: ScriptedBlock, index: number): FakeStep[] {
  return [
    asStep(`{"type":"content_block_start","index":${index},"content_block":${block.start}}`),
    ...(block.deltas ?? []).map((delta) => asStep(`{"type":"content_block_delta","index":${index},"delta":${delta}}`)),
    ...(block.until === undefined ? [] : [{ until: block.until }]),
    asStep(`{"type":"content_block_stop","index":${index}}`),
  ];
}

/** The parts of a provider request that the tests look at. */
export interface ProviderBlock {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly tool_use_id?: string;
  readonly is_error?: boolean;
  readonly content?: string | readonly { readonly type: string; readonly text?: string }[];
}
export interface ProviderMessage {
  readonly role: "user" | "assistant";
  readonly content: readonly ProviderBlock[];
}

/** The messages of the provider's nth request; a string content counts as one text block. */
export function messagesOf(provider: FakeModel, n: number): ProviderMessage[] {
  const body = provider.requests[n]?.body;
  if (body === undefined) throw new Error(`There was no provider request ${n}, only ${provider.count}.`);
  const { messages } = JSON.parse(body) as {
    messages: { role: "user" | "assistant"; content: string | ProviderBlock[] }[];
  };
  return messages.map(({ role, content }) => ({
    role,
    content: typeof content === "string" ? [{ type: "text", text: content }] : content,
  }));
}

/** What the provider was told about a call. */
export function resultText(block: ProviderBlock | undefined): string {
  const content = block?.content ?? "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

/** The results in a provider request, in order. */
export const resultsOf = (provider: FakeModel, n: number): ProviderBlock[] =>
  messagesOf(provider, n).flatMap(({ content }) => content.filter((block) => block.type === "tool_result"));

/** The texts of the user's side of a provider request, in order. */
export const userTexts = (provider: FakeModel, n: number): string[] =>
  messagesOf(provider, n)
    .filter(({ role }) => role === "user")
    .flatMap(({ content }) => content.flatMap((block) => (block.type === "text" ? [block.text ?? ""] : [])));
