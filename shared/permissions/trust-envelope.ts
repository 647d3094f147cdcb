/**
 * What the permission evaluator is shown of one call.
 *
 * Authority comes from provenance, never from words: `intent` holds the agent's instructions and what the client itself
 * wrote up to the turn's trigger; `refusals` holds what a person has refused, which only takes authority away; everything
 * else the conversation holds is quoted under `untrusted`, where a text that says it is the user is still a text. JSON
 * strings keep them apart: no content can close its quotes.
 */

/** Bytes of the whole envelope. */
export const MAX_ENVELOPE_BYTES = 64 * 1024;

/** Characters that are kept of one quoted text, half from either end. Only intent, refusals and the call must be whole. */
export const MAX_QUOTE_CHARS = 4096;

/** One text that cannot grant authority, with where it comes from. */
export interface Quote {
  readonly source: "assistant" | "tool_call" | "tool_result" | "web" | "attachment";
  /** The tool that was called or that answered. */
  readonly tool?: string;
  readonly text: string;
}

/** A call that a person refused. */
export interface Refusal {
  readonly tool: string;
  /** JSON text of the call's input, exactly as the model wrote it. */
  readonly input: string;
  /** The person's words; null when they gave none. */
  readonly message: string | null;
}

/** What calls are judged by: the same for all calls of a round. */
export interface Conversation {
  /** The agent's system text as pinned with the session; null when it has none. */
  readonly agentSystem: string | null;
  /** Texts of the client's messages up to the turn's trigger, oldest first; the last one is the trigger's. */
  readonly clientMessages: readonly string[];
  /** Oldest first. */
  readonly refusals: readonly Refusal[];
  /** Everything else, oldest first. */
  readonly quotes: readonly Quote[];
  /** Whether the thread holds older texts than the quotes. */
  readonly olderLeftOut: boolean;
}

/** Why a call cannot be put before the evaluator; a person is asked. */
export type NoEnvelope = "no_intent" | "oversize" | "refused_before";

/**
 * The envelope as JSON text, or why there is none:
 *
 * - `no_intent`: the trigger holds no words, so that nothing says what the client wants now;
 * - `refused_before`: a person has refused this very call in this thread;
 * - `oversize`: intent, refusals and call do not fit.
 *
 * Of the quotes the newest are kept that fit.
 */
export function trustEnvelope(
  conversation: Conversation,
  call: { readonly name: string; readonly input: string },
): { readonly text: string } | NoEnvelope {
  const { agentSystem, clientMessages, refusals, quotes } = conversation;
  if ((clientMessages.at(-1) ?? "").replace(PLACEHOLDER, "").trim() === "") {
    return "no_intent";
  }
  if (refusals.some((refusal) => refusal.tool === call.name && refusal.input === call.input)) {
    return "refused_before";
  }
  const head =
    `{"intent":${JSON.stringify({ agent_system: agentSystem, client_messages: clientMessages })},` +
    `"refusals":[${refusals.map(refusalText).join(",")}],"untrusted":[`;
  const tail = (leftOut: boolean) =>
    `],"older_left_out":${leftOut},"call":{"tool":${JSON.stringify(call.name)},"input":${call.input}}}`;
  let room = MAX_ENVELOPE_BYTES - Buffer.byteLength(head) - Buffer.byteLength(tail(false));
  if (room < 0) {
    return "oversize";
  }
  const kept: string[] = [];
  for (const quote of quotes.toReversed()) {
    const text = JSON.stringify(cut(quote));
    room -= Buffer.byteLength(text) + 1;
    if (room < 0) {
      break;
    }
    kept.unshift(text);
  }
  return { text: `${head}${kept.join(",")}${tail(conversation.olderLeftOut || kept.length < quotes.length)}` };
}

/** Parts of a client's message that are not text. */
const ATTACHMENTS = ["image", "document", "file", "part"];
const PLACEHOLDER = new RegExp(`\\[(?:${ATTACHMENTS.join("|")})\\]`, "g");

/** What stands for a part of a client's message that is not text. */
export function placeholderOf(type: string): string {
  return `[${ATTACHMENTS.includes(type) ? type : "part"}]`;
}

function refusalText({ tool, input, message }: Refusal): string {
  return `{"tool":${JSON.stringify(tool)},"input":${input}${message === null ? "" : `,"message":${JSON.stringify(message)}`}}`;
}

function cut({ source, tool, text }: Quote): object {
  const leftOut = text.length - MAX_QUOTE_CHARS;
  const half = MAX_QUOTE_CHARS / 2;
  return {
    source,
    ...(tool !== undefined && { tool }),
    text: leftOut > 0 ? `${text.slice(0, half).toWellFormed()}${text.slice(-half).toWellFormed()}` : text,
    ...(leftOut > 0 && { left_out: leftOut }),
  };
}
