/**
 * What the permission evaluator is shown of one call.
 *
 * Authority comes from provenance, never from words: `intent` holds the agent's instructions and what the client itself
 * wrote up to the turn's trigger; everything else the conversation holds is quoted under `untrusted`, where a text that
 * says it is the user is still a text. JSON strings keep the two apart: no content can close its quotes.
 */

/** Bytes of the whole envelope. */
export const MAX_ENVELOPE_BYTES = 64 * 1024;

/** Characters that are kept of one quoted text. Quotes inform; only intent and the call must be whole. */
const MAX_QUOTE_CHARS = 4096;

/** One text that cannot grant authority, with where it comes from. */
export interface Quote {
  readonly source: "assistant" | "tool_call" | "tool_result" | "web" | "attachment";
  /** The tool that was called or that answered. */
  readonly tool?: string;
  readonly text: string;
}

export interface EvaluationCase {
  /** The agent's system text as pinned with the session; null when it has none. */
  readonly agentSystem: string | null;
  /** Texts of the client's messages up to the turn's trigger, oldest first. */
  readonly clientMessages: readonly string[];
  /** Everything else, oldest first. */
  readonly quotes: readonly Quote[];
  readonly tool: string;
  /** JSON text of the call's input, exactly as the model wrote it. */
  readonly input: string;
}

/**
 * The envelope as JSON text, or why there is none: `no_intent` when the client wrote no text that could authorise
 * anything, `oversize` when intent and call do not fit. Of the quotes the newest are kept that fit, and it is said how
 * many are left out.
 */
export function trustEnvelope(of: EvaluationCase): { readonly text: string } | "no_intent" | "oversize" {
  if (of.clientMessages.every((message) => message.trim() === "")) {
    return "no_intent";
  }
  const intent = JSON.stringify({ agent_system: of.agentSystem, client_messages: of.clientMessages });
  const call = `{"tool":${JSON.stringify(of.tool)},"input":${of.input}}`;
  const envelope = (quotes: readonly string[]) =>
    `{"intent":${intent},"untrusted":[${quotes.join(",")}],"untrusted_left_out":${of.quotes.length - quotes.length},"call":${call}}`;
  // The count above may need more digits than it has with no quotes; twenty bytes are more than any count.
  let room = MAX_ENVELOPE_BYTES - Buffer.byteLength(envelope([])) - 20;
  if (room < 0) {
    return "oversize";
  }
  const kept: string[] = [];
  for (const quote of of.quotes.toReversed()) {
    const text = JSON.stringify(cut(quote));
    room -= Buffer.byteLength(text) + 1;
    if (room < 0) {
      break;
    }
    kept.unshift(text);
  }
  return { text: envelope(kept) };
}

function cut({ source, tool, text }: Quote): object {
  const isCut = text.length > MAX_QUOTE_CHARS;
  return {
    source,
    ...(tool !== undefined && { tool }),
    text: isCut ? text.slice(0, MAX_QUOTE_CHARS).toWellFormed() : text,
    ...(isCut && { cut: true }),
  };
}
