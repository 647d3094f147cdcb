import type { Transaction } from "../db/transaction.ts";
import { type Block, readBlocks } from "../model/content-blocks.ts";
import { END_OF_TURN, type EntryPlace, readTranscript, type TranscriptEntry } from "../transcript/transcript.ts";
import type { SessionRuntime } from "./runtime.ts";
import { type Quote, trustEnvelope } from "./trust-envelope.ts";

/**
 * Where the texts of a thread come from, read before any projection: the ledger says what the client wrote, and when the
 * agent took it up; the transcript holds everything else.
 */

/**
 * Texts of the client's messages that the turn answers: those that were taken up no later than its trigger. A message
 * that is queued while the turn runs authorises nothing in it.
 */
async function readClientMessages(
  transaction: Transaction,
  turn: { readonly sessionId: string; readonly threadId: string; readonly triggerEventId: string },
): Promise<string[]> {
  const { rows } = await transaction.query<{ payload: string }>(
    `select e.payload from events e
       join events trigger on trigger.session_id = e.session_id and trigger.id = $3
      where e.session_id = $1 and e.thread_id = $2 and e.type = 'user.message' and e.processed_at <= trigger.processed_at
      order by e.processed_at, e.seq`,
    [turn.sessionId, turn.threadId, turn.triggerEventId],
  );
  return rows.flatMap((row) => {
    const { content } = JSON.parse(row.payload) as { content: string | { type: string; text?: string }[] };
    return typeof content === "string" ? content : content.flatMap((part) => part.text ?? []);
  });
}

/** What a call is judged by, and the place in the transcript up to which it was read: enough to read it again. */
export interface Conversation {
  readonly clientMessages: readonly string[];
  readonly quotes: readonly Quote[];
  readonly through: EntryPlace;
}

/** Reads the conversation of a turn up to a place in its transcript; all of it, as it stands, by default. */
export async function readConversation(
  transaction: Transaction,
  turn: {
    readonly sessionId: string;
    readonly threadId: string;
    readonly ordinal: number;
    readonly triggerEventId: string;
  },
  through: EntryPlace = { turn: turn.ordinal, entry: END_OF_TURN },
): Promise<Conversation> {
  const transcript = await readTranscript(transaction, { threadId: turn.threadId, through });
  return {
    clientMessages: await readClientMessages(transaction, turn),
    quotes: quotesOf(transcript),
    through: transcript.at(-1)?.place ?? { turn: 0, entry: 0 },
  };
}

/** The evaluator's envelope for one call of that conversation. */
export function envelopeOf(
  runtime: Pick<SessionRuntime, "system">,
  { clientMessages, quotes }: Conversation,
  step: { readonly name: string; readonly input: string },
): ReturnType<typeof trustEnvelope> {
  return trustEnvelope({ agentSystem: runtime.system, clientMessages, quotes, tool: step.name, input: step.input });
}

/** Everything that a transcript holds besides its intent, oldest first, each with its source. */
export function quotesOf(transcript: readonly Pick<TranscriptEntry, "role" | "content">[]): Quote[] {
  const tools = new Map<string, string>();
  return transcript.flatMap((entry) =>
    readBlocks(entry.content).flatMap((block): Quote[] => {
      if (entry.role === "assistant") {
        if (block.id !== undefined && block.name !== undefined) {
          tools.set(block.id, block.name);
        }
        return assistantQuote(block);
      }
      return clientQuote(block, tools);
    }),
  );
}

function assistantQuote(block: Block): Quote[] {
  switch (block.type) {
    case "text":
      return [{ source: "assistant", text: block.text ?? "" }];
    case "tool_use":
      return [{ source: "tool_call", tool: block.name ?? "", text: block.inputText ?? "{}" }];
    // The model's own reasoning is private and proves nothing.
    case "thinking":
    case "redacted_thinking":
      return [];
    default:
      return [{ source: "web", text: block.raw }];
  }
}

interface WireBlock {
  readonly type: string;
  readonly text?: string;
  readonly tool_use_id?: string;
  readonly content?: string | readonly WireBlock[];
  readonly source?: { readonly type?: string; readonly data?: string };
}

function clientQuote(block: Block, tools: ReadonlyMap<string, string>): Quote[] {
  if (block.type === "text") {
    // The client's own words are intent.
    return [];
  }
  const wire = JSON.parse(block.raw) as WireBlock;
  if (block.type !== "tool_result") {
    return [{ source: "attachment", text: textOf(wire) }];
  }
  const tool = tools.get(wire.tool_use_id ?? "");
  const content = typeof wire.content === "string" ? wire.content : (wire.content ?? []).map(textOf).join("\n");
  return [{ source: "tool_result", ...(tool !== undefined && { tool }), text: content }];
}

/** What can be read of a block; a picture, a PDF and the like are only named. */
function textOf(block: WireBlock): string {
  if (block.text !== undefined) {
    return block.text;
  }
  return block.source?.type === "text" ? (block.source.data ?? "") : `[${block.type}]`;
}
