import type { CapabilityProfile } from "./capability-profile.ts";

/**
 * The model port: one streamed request in the Messages wire format.
 *
 * Requests and responses are JSON *text*, not values: what a provider sent must come back to it byte for byte
 * (signatures cover the bytes; a parse and stringify rounds large numbers and moves integer-like keys).
 */

/** Token counts of one request, as the provider reported them; absent counts are 0. */
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadInputTokens: number;
  readonly cacheCreationInputTokens: number;
  readonly webSearchRequests: number;
  readonly webFetchRequests: number;
}

export interface ModelRequest {
  /** The complete request body, `"stream": true` included. */
  readonly body: string;
  /** The same for a repeat of the same request; sent only to an endpoint whose profile names a header for it. */
  readonly idempotencyKey?: string;
  /** Aborting ends the request; the call then rejects with `ModelAborted`. */
  readonly signal: AbortSignal;
  /** Told as the response streams. Must not throw. */
  readonly onPreview?: (preview: ModelPreview) => void;
}

/** What a client may see before the response is complete. `index` is the block's place in the provider's content. */
export type ModelPreview =
  | { readonly type: "block_start"; readonly index: number; readonly blockType: string }
  | { readonly type: "text_delta"; readonly index: number; readonly text: string };

export interface ModelResponse {
  /** The content array exactly as received: JSON text of an array of blocks. */
  readonly content: string;
  /** As the provider sent it; null when the stream ended without one. */
  readonly stopReason: string | null;
  /** JSON text of the provider's `stop_details`, when it sent any. */
  readonly stopDetails: string | null;
  /** The model id that the provider says answered. */
  readonly model: string;
  readonly usage: ModelUsage;
  /** The provider's request id, for support and billing; null when it sent none. */
  readonly requestId: string | null;
}

/** Why a request failed, in the words of `session.error`. */
export type ModelErrorType =
  | "model_overloaded_error"
  | "model_rate_limited_error"
  | "model_request_failed_error"
  | "billing_error";

/** The provider refused or broke. `retryable` says whether the same request may be sent again. */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly type: ModelErrorType;
  readonly retryable: boolean;
  /** What the provider asked for, in milliseconds; null when it did not say. */
  readonly retryAfterMs: number | null;
  /** HTTP status; null when no answer came. */
  readonly status: number | null;
  readonly requestId: string | null;
  /** The request can never fit: more context than the model takes, or a body over the provider's limit. */
  readonly tooLarge: boolean;
  /** Usage that was reported before the failure. */
  readonly usage: ModelUsage | null;

  constructor(
    message: string,
    fields: {
      readonly type: ModelErrorType;
      readonly retryable: boolean;
      readonly retryAfterMs?: number | null;
      readonly status?: number | null;
      readonly requestId?: string | null;
      readonly tooLarge?: boolean;
      readonly usage?: ModelUsage | null;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: fields.cause });
    this.type = fields.type;
    this.retryable = fields.retryable;
    this.retryAfterMs = fields.retryAfterMs ?? null;
    this.status = fields.status ?? null;
    this.requestId = fields.requestId ?? null;
    this.tooLarge = fields.tooLarge ?? false;
    this.usage = fields.usage ?? null;
  }
}

/** The caller gave up (`signal`). Carries what the provider had reported until then. */
export class ModelAborted extends Error {
  override readonly name = "ModelAborted";
  readonly usage: ModelUsage | null;

  constructor(usage: ModelUsage | null) {
    super("The model request was aborted.");
    this.usage = usage;
  }
}

/** One configured Messages endpoint. */
export interface Model {
  /** Recorded with every transcript entry: which kind of provider wrote it (`messages`, `offline`). */
  readonly provider: string;
  /** What the endpoint can do, as it was configured; absent: nothing is claimed for it. */
  readonly profile?: CapabilityProfile;
  stream(request: ModelRequest): Promise<ModelResponse>;
}
