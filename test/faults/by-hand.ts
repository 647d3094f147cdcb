/**
 * The product without a state machine: a test calls the handlers itself, in any order and as late as it likes, with a
 * model, an executor and an orchestrator that do what the test says.
 */
import { createAgent } from "../../shared/agents/agents.ts";
import { CreateAgent } from "../../shared/contract/agents.ts";
import type { AcceptedEvent } from "../../shared/contract/client-events.ts";
import { SendEvents } from "../../shared/contract/client-events.ts";
import { inTransaction } from "../../shared/db/transaction.ts";
import { createEnvironment } from "../../shared/environments/environments.ts";
import { memoryLiveChannel } from "../../shared/live/memory-live-channel.ts";
import { memoryStreamPlaces } from "../../shared/live/memory-stream-places.ts";
import type { ModelRequest, ModelResponse, ModelUsage } from "../../shared/model/model.ts";
import { capabilitiesOf } from "../../shared/permissions/capabilities.ts";
import { LEASE_SECONDS, type Product } from "../../shared/product.ts";
import { type Admitted, admitEvents } from "../../shared/sessions/admission.ts";
import { createSession } from "../../shared/sessions/sessions.ts";
import type { ToolCall, ToolOutcome } from "../../shared/turns/tool-executor.ts";
import { ensureWorkspace } from "../../shared/workspaces/keys.ts";
import { type TestDatabase, testDatabase } from "../database.ts";

const WORKSPACE = "wrkspc_hand";
const USAGE: ModelUsage = {
  inputTokens: 11,
  outputTokens: 7,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};

/** A tool that the control plane runs: no such tool can be asked for yet, so it is put into the session's runtime. */
export const SERVER_TOOL = { name: "fetch_page", owner: "platform_managed", declaration: '{"name":"fetch_page"}' };

type Reply = (request: ModelRequest) => Promise<ModelResponse>;

export interface LoggedLine {
  readonly message: string;
  readonly fields: object;
}

export interface ByHand {
  readonly database: TestDatabase;
  readonly product: Product;
  readonly environmentId: string;
  readonly warnings: readonly LoggedLine[];
  /** What the orchestrator was told. */
  readonly starts: readonly { readonly name: string; readonly input: string }[];
  readonly releases: readonly { readonly taskToken: string; readonly output: string }[];
  /** What it answers; throwing is an answer too. */
  orchestrator: {
    start: (name: string) => Promise<"started" | "exists">;
    release: (taskToken: string) => Promise<"released" | "stale">;
  };
  /** Answers of the model, in order. */
  readonly replies: Reply[];
  /** Bodies of the requests made. */
  readonly requests: readonly string[];
  runTool: (call: ToolCall) => Promise<ToolOutcome>;
  open(tools?: readonly object[], serverTools?: readonly object[]): Promise<HandSession>;
  close(): Promise<void>;
}

export async function startByHand(): Promise<ByHand> {
  const database = await testDatabase();
  const { pool } = database;
  await ensureWorkspace(pool, { id: WORKSPACE, name: "by hand" });
  const environment = await createEnvironment(pool, WORKSPACE, { name: "by hand" });
  const warnings: LoggedLine[] = [];
  const starts: { name: string; input: string }[] = [];
  const releases: { taskToken: string; output: string }[] = [];
  const replies: Reply[] = [];
  const requests: string[] = [];
  const log = {
    debug() {},
    info() {},
    warn: (message: string, fields = {}) => void warnings.push({ message, fields }),
    error() {},
  };
  const hand: ByHand = {
    database,
    environmentId: environment.id,
    warnings,
    starts,
    releases,
    replies,
    requests,
    orchestrator: { start: async () => "started", release: async () => "released" },
    runTool: () => Promise.reject(new Error("The test gave no executor.")),
    product: {
      database: pool,
      live: memoryLiveChannel(),
      streamPlaces: memoryStreamPlaces({ perKey: 10, perSession: 10 }),
      owner: "by-hand",
      leaseSeconds: LEASE_SECONDS,
      log,
      tools: { run: (call) => hand.runTool(call) },
      orchestrator: {
        start(params) {
          starts.push(params);
          return hand.orchestrator.start(params.name);
        },
        find: async () => "running",
        release(params) {
          releases.push(params);
          return hand.orchestrator.release(params.taskToken);
        },
      },
      model: {
        provider: "messages",
        stream(request) {
          requests.push(request.body);
          const reply = replies.shift();
          return reply === undefined ? Promise.reject(new Error("The test gave no reply.")) : reply(request);
        },
      },
    },
    async open(tools = [], serverTools = []) {
      const capabilities = capabilitiesOf(hand.product);
      const agent = await createAgent(pool, {
        workspaceId: WORKSPACE,
        capabilities,
        body: CreateAgent.parse({ name: "Tester", model: "test-1", tools }),
      });
      const { session } = await inTransaction(pool, (transaction) =>
        createSession(transaction, {
          workspaceId: WORKSPACE,
          capabilities,
          body: { agent: agent.id, environment_id: environment.id },
        }),
      );
      if (serverTools.length > 0) {
        await pool.query(
          "update sessions set runtime = jsonb_set(runtime::jsonb, '{tools}', (runtime::jsonb -> 'tools') || $2::jsonb)::text where id = $1",
          [session.id, JSON.stringify(serverTools)],
        );
      }
      return new HandSession(hand, session.id);
    },
    close: () => database.close(),
  };
  return hand;
}

export interface Row {
  readonly id: string;
  readonly seq: number;
  readonly type: string;
  readonly processed: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: the fields differ by type, and the tests name what they look at
  readonly payload: any;
}

export class HandSession {
  readonly id: string;
  readonly #hand: ByHand;

  constructor(hand: ByHand, id: string) {
    this.#hand = hand;
    this.id = id;
  }

  /** Admits a batch as a POST does, without what follows the commit. */
  send(...events: readonly object[]): Promise<Admitted> {
    const accepted = SendEvents.parse({ events }).events as AcceptedEvent[];
    return inTransaction(this.#hand.database.pool, (transaction) =>
      admitEvents(transaction, { workspaceId: WORKSPACE, sessionId: this.id, events: accepted }),
    );
  }

  /** What the provider asked to wait has passed. */
  async pauseIsOver(): Promise<void> {
    await this.#hand.database.pool.query("update turns set retry_at = now() where session_id = $1", [this.id]);
  }

  /** The newest turn, as its execution names it. */
  async ref(): Promise<{ turnId: string; segment: number }> {
    const { id, segment } = await this.turn();
    return { turnId: id, segment };
  }

  async turn() {
    const turn = (await this.turns()).at(-1);
    if (turn === undefined) throw new Error("The session has no turn.");
    return turn;
  }

  async turns() {
    const { rows } = await this.#hand.database.pool.query<{
      id: string;
      segment: number;
      state: string;
      task_token: string | null;
      retries: number;
    }>("select id, segment, state, task_token, retries from turns where session_id = $1 order by ordinal", [this.id]);
    return rows;
  }

  /** The ledger in receipt order. */
  async events(): Promise<Row[]> {
    const { rows } = await this.#hand.database.pool.query<Omit<Row, "payload"> & { payload: string }>(
      "select id, seq, type, processed_at is not null as processed, payload from events where session_id = $1 order by seq",
      [this.id],
    );
    return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload) }));
  }

  async types(): Promise<string[]> {
    return (await this.events()).map((event) => event.type);
  }

  /** The ids of the events that the newest idle names. */
  async waiting(): Promise<string[]> {
    const idle = (await this.events()).findLast((event) => event.type === "session.status_idle");
    return idle?.payload.stop_reason.event_ids ?? [];
  }

  async usage() {
    const { rows } = await this.#hand.database.pool.query<{ input_tokens: number; output_tokens: number }>(
      "select input_tokens, output_tokens from sessions where id = $1",
      [this.id],
    );
    return rows[0];
  }

  async calls() {
    const { rows } = await this.#hand.database.pool.query<{
      attempt: number;
      state: string;
      input_tokens: number;
      output_tokens: number;
    }>(
      "select attempt, state, input_tokens, output_tokens from provider_calls where session_id = $1 order by turn_id, round, attempt",
      [this.id],
    );
    return rows;
  }

  async steps() {
    const { rows } = await this.#hand.database.pool.query<{
      id: string;
      state: string;
      result: string | null;
      is_error: boolean | null;
    }>("select id, state, result, is_error from tool_steps where session_id = $1 order by turn_id, round, position", [
      this.id,
    ]);
    return rows;
  }

  async outbox() {
    const { rows } = await this.#hand.database.pool.query<{ kind: string; segment: number; task_token: string | null }>(
      "select kind, segment, task_token from outbox where session_id = $1 order by created_at, segment",
      [this.id],
    );
    return rows;
  }
}

/** A model's answer. */
export const answers =
  (stopReason: string | null, ...blocks: readonly object[]): Reply =>
  () =>
    Promise.resolve({
      content: JSON.stringify(blocks),
      stopReason,
      stopDetails: null,
      model: "test-1",
      usage: USAGE,
      requestId: "req_hand",
    });

export const text = (words: string) => ({ type: "text", text: words });
export const use = (id: string, name: string, input: object = {}) => ({ type: "tool_use", id, name, input });

/** An answer that comes when the test says so. */
export function later(reply: Reply): { readonly reply: Reply; readonly asked: Promise<void>; release(): void } {
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  return {
    asked: asked.promise,
    release: () => gate.resolve(),
    async reply(request) {
      asked.resolve();
      await gate.promise;
      return reply(request);
    },
  };
}

/** The starts and the ends of model requests, by the id of the start. */
export function spans(events: readonly Row[]): { readonly starts: string[]; readonly ends: string[] } {
  const starts = events.filter(({ type }) => type === "span.model_request_start").map(({ id }) => id);
  const ends = events
    .filter(({ type }) => type === "span.model_request_end")
    .map(({ payload }) => payload.model_request_start_id as string);
  return { starts, ends };
}
