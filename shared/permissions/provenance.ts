import type { Transaction } from "../db/transaction.ts";
import { type Block, readBlocks } from "../model/content-blocks.ts";
import { publicResult, serverCallOf } from "../model/native-blocks.ts";
import { type EntryPlace, readTranscriptBackwards, type TranscriptEntry } from "../transcript/transcript.ts";
import {
  type Conversation,
  MAX_ENVELOPE_BYTES,
  MAX_QUOTE_CHARS,
  placeholderOf,
  type Quote,
  type Refusal,
} from "./trust-envelope.ts";

/**
 * Where the texts of a thread come from, read before any projection: the ledger says what the client wrote, and when the
 * agent took it up; the journal says what a person refused; the transcript holds everything else.
 *
 * Read without a lock: what is read here is append-only, and `through` names where it ends. Only as much is read as an
 * envelope can hold, so that the cost does not grow with the session's age.
 */

/** The round of the turn whose calls are judged. */
export interface JudgedRound {
  readonly round: number;
  readonly sessionId: string;
  readonly threadId: string;
  readonly triggerEventId: string;
}

/** Reads what a turn's calls are judged by, up to and with a place in its transcript. */
export async function readConversation(
  database: Transaction,
  turn: JudgedRound,
  params: { readonly agentSystem: string | null; readonly through: EntryPlace },
): Promise<Conversation> {
  return {
    agentSystem: params.agentSystem,
    clientMessages: await readClientMessages(database, turn),
    refusals: await readRefusals(database, turn, params.through),
    ...(await readQuotes(database, turn, params.through)),
  };
}

/** Messages that are read at once: each may hold 32 MB of attachments. */
const MESSAGES = 20;

/**
 * Texts of the client's messages that the turn answers: those that were taken up no later than its trigger. A message
 * that is queued while the turn runs authorises nothing in it. More than an envelope holds is not read: the envelope is
 * oversize then, whatever else there is.
 */
async function readClientMessages(database: Transaction, turn: JudgedRound): Promise<string[]> {
  const messages: string[] = [];
  let bytes = 0;
  let before = null as { readonly at: Date; readonly seq: string } | null;
  while (bytes <= MAX_ENVELOPE_BYTES) {
    const { rows }: { rows: { payload: string; processed_at: Date; seq: string }[] } = await database.query(
      `select e.payload, e.processed_at, e.seq from events e
         join events trigger on trigger.session_id = e.session_id and trigger.id = $3
        where e.session_id = $1 and e.thread_id = $2 and e.type = 'user.message' and e.processed_at <= trigger.processed_at
          and ($4::timestamptz is null or (e.processed_at, e.seq) < ($4, $5::bigint))
        order by e.processed_at desc, e.seq desc limit $6`,
      [turn.sessionId, turn.threadId, turn.triggerEventId, before?.at ?? null, before?.seq ?? null, MESSAGES],
    );
    for (const row of rows) {
      const text = messageText(row.payload);
      bytes += Buffer.byteLength(text);
      messages.unshift(text);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < MESSAGES) {
      break;
    }
    before = { at: last.processed_at, seq: last.seq };
  }
  return messages;
}

/** A message's words, with a mark where an attachment stands. */
function messageText(payload: string): string {
  const { content } = JSON.parse(payload) as { content: string | readonly { type: string; text?: string }[] };
  return typeof content === "string"
    ? content
    : content.map((part) => part.text ?? placeholderOf(part.type)).join("\n");
}

/** Calls of the thread that a person refused before this round. */
async function readRefusals(database: Transaction, turn: JudgedRound, through: EntryPlace): Promise<Refusal[]> {
  const { rows } = await database.query<{ name: string; input: string; payload: string }>(
    `select s.name, s.input, e.payload from pending_actions a
       join turns t on t.id = a.turn_id join tool_steps s on s.id = a.step_id
       join events e on e.session_id = a.session_id and e.id = a.resolved_by_event_id
      where a.session_id = $1 and t.thread_id = $2 and (t.ordinal < $3 or t.ordinal = $3 and s.round < $4)
        and a.need = 'confirmation' and a.resolution = 'deny'
      order by a.resolved_at, a.event_id limit $5`,
    [turn.sessionId, turn.threadId, through.turn, turn.round, MAX_REFUSALS],
  );
  return rows.map(({ name, input, payload }) => {
    const { deny_message: message } = JSON.parse(payload) as { deny_message?: string };
    return { tool: name, input, message: message ?? null };
  });
}

/** More than fit into an envelope, of 24 bytes each at least: then it is oversize, and a person is asked. */
const MAX_REFUSALS = 3000;

/** Entries that are read at once, from the newest back. */
const ENTRIES = 20;

/** The newest texts of the transcript, as many as could fit into an envelope. */
async function readQuotes(
  database: Transaction,
  turn: JudgedRound,
  through: EntryPlace,
): Promise<Pick<Conversation, "quotes" | "olderLeftOut">> {
  const entries: TranscriptEntry[] = [];
  let room = MAX_ENVELOPE_BYTES;
  for await (const page of readTranscriptBackwards(database, { threadId: turn.threadId, through, size: ENTRIES })) {
    entries.unshift(...page.toReversed());
    for (const { text } of quotesOf(page)) {
      room -= Math.min(text.length, MAX_QUOTE_CHARS);
    }
    if (room < 0) {
      return { quotes: quotesOf(entries), olderLeftOut: true };
    }
  }
  return { quotes: quotesOf(entries), olderLeftOut: false };
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
    case "server_tool_use":
      return [{ source: "tool_call", tool: block.name ?? "", text: block.inputText ?? "{}" }];
    // The model's own reasoning is private and proves nothing.
    case "thinking":
    case "redacted_thinking":
      return [];
    default:
      return [
        { source: "web", text: serverCallOf(block) === null ? block.raw : readable(publicResult(block).content) },
      ];
  }
}

interface WireBlock {
  readonly type: string;
  readonly text?: string;
  readonly title?: string;
  readonly context?: string;
  readonly tool_use_id?: string;
  readonly content?: string | readonly WireBlock[];
  readonly source?: string | { readonly type?: string; readonly data?: string };
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
  const text = typeof wire.content === "string" ? wire.content : (wire.content ?? []).map(textOf).join("\n");
  return [{ source: "tool_result", ...(tool !== undefined && { tool }), text }];
}

/** All that can be read of a block, titles and nested results included; what holds no text is only named. */
function textOf(block: WireBlock): string {
  const { type, text, title, context, content, source } = block;
  const texts = [
    title,
    context,
    text,
    typeof source === "string" ? source : source?.type === "text" ? source.data : undefined,
    typeof content === "string" ? content : content?.map(textOf).join("\n"),
  ].filter((part) => part !== undefined && part !== "");
  return texts.length > 0 ? texts.join("\n") : `[${type}]`;
}

function readable(content: string): string {
  return (JSON.parse(content) as readonly WireBlock[]).map(textOf).join("\n");
}
