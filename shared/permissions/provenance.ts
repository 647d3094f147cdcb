import type { Transaction } from "../db/transaction.ts";
import { type Block, readBlocks } from "../model/content-blocks.ts";
import { END_OF_TURN, readTranscript, type TranscriptEntry } from "../transcript/transcript.ts";
import type { Quote } from "./trust-envelope.ts";

/**
 * Where the texts of a thread come from, read before any projection: the ledger says what the client wrote, and when the
 * agent took it up; the transcript holds everything else.
 */

/**
 * Texts of the client's messages that the turn answers: those that were taken up no later than its trigger. A message
 * that is queued while the turn runs authorises nothing in it.
 */
export async function readClientMessages(
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

/** Everything that the thread holds besides its intent, oldest first, each with its source. */
export async function readQuotes(
  transaction: Transaction,
  turn: { readonly threadId: string; readonly ordinal: number },
): Promise<Quote[]> {
  const through = { turn: turn.ordinal, entry: END_OF_TURN };
  return quotesOf(await readTranscript(transaction, { threadId: turn.threadId, through }));
}

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
