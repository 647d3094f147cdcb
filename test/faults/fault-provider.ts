/**
 * A provider that answers by what the conversation asks for, however often it is asked, and checks every request as a
 * strict Messages endpoint would. A message says `JOB <name> <kind>`; the rounds of each kind are below.
 */
import { CRITERIA } from "../../shared/permissions/criteria.ts";
import { answerEvents, type FakeReply, failure, sse } from "../fake-model/replies.ts";
import { type FakeModel, type RecordedRequest, startFakeModel } from "../fake-model/server.ts";

/** bash is judged by the model before each call, edit by a person. */
export const AGENT_TOOLS = [
  {
    type: "agent_toolset_20260401",
    configs: [
      { name: "bash", permission_policy: { type: "auto" } },
      { name: "edit", permission_policy: { type: "always_ask" } },
    ],
  },
];

/**
 * say: an answer. bash: one call, then the answer. ask: a call that a person must allow, then the answer. full: two
 * calls at once, then one that a person must allow, then the answer.
 */
export type JobKind = "say" | "bash" | "ask" | "full";

type Call = "bash" | "edit";
const ROUNDS: Readonly<Record<JobKind, readonly (readonly Call[])[]>> = {
  say: [],
  bash: [["bash"]],
  ask: [["edit"]],
  full: [["bash", "bash"], ["edit"]],
};

export const job = (name: string, kind: JobKind) => ({
  type: "user.message",
  content: [{ type: "text", text: `JOB ${name} ${kind}` }],
});
export const answerTo = (name: string) => `Answer to ${name}.`;

/** Where the calls leave their mark: the id of the call, once for each time that it was run. */
export const BASH_FILE = "bash.txt";
export const EDIT_FILE = "edit.txt";
export const EDIT_FILE_START = "|";

export interface CountedCall {
  readonly requestId: string;
  readonly job: string;
  readonly input: number;
  readonly output: number;
  readonly refused: boolean;
  /** Asked as the permission evaluator: which call. */
  readonly evaluates: string | null;
}

export interface FaultProvider {
  readonly url: string;
  /** What was counted, by request id. */
  readonly calls: ReadonlyMap<string, CountedCall>;
  /** Everything that was wrong with a request. */
  readonly complaints: readonly string[];
  /** The newest request of a job: its messages. */
  newest(job: string): readonly Message[] | undefined;
  close(): Promise<void>;
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly tool_use_id?: string;
  readonly content?: unknown;
}
export interface Message {
  readonly role: string;
  readonly content: readonly Block[];
}

export async function startFaultProvider(
  options: {
    /** Whether to refuse this request as overloaded. */
    readonly refuses?: (request: { readonly job: string; readonly round: number; readonly n: number }) => boolean;
    /** How long to pause in the middle of the nth answer. */
    readonly pauseMs?: (n: number) => number;
  } = {},
): Promise<FaultProvider> {
  const calls = new Map<string, CountedCall>();
  const complaints: string[] = [];
  const newest = new Map<string, readonly Message[]>();
  /** Every call that was ever asked for: what came back must be what was sent. */
  const issued = new Map<string, string>();

  const script = (request: RecordedRequest, n: number): FakeReply => {
    const { system, messages } = JSON.parse(request.body) as { system?: string; messages: readonly Message[] };
    if (system === CRITERIA) return judge(messages, n);
    for (const complaint of illegalities(messages, issued)) complaints.push(`provider request ${n}: ${complaint}`);
    const asked = currentJob(messages);
    if (asked === null) {
      complaints.push(`provider request ${n}: there is no job in it`);
      return failure(400, "invalid_request_error", "There is no job.");
    }
    newest.set(asked.name, messages);
    const requestId = `req_fault_${n}`;
    const count = { requestId, job: asked.name, input: 100 + n, output: 10 + (n % 17), evaluates: null };
    if (options.refuses?.({ job: asked.name, round: asked.round, n }) === true) {
      calls.set(requestId, { ...count, input: 0, output: 0, refused: true });
      return failure(529, "overloaded_error", "Busy.", { "retry-after": "1", "request-id": requestId });
    }
    calls.set(requestId, { ...count, refused: false });
    return { headers: { "request-id": requestId }, steps: steps(answer(asked, count), options.pauseMs?.(n) ?? 0) };
  };

  /** Allows every call, but says so only of one that the model made for a job of the client's. */
  const judge = (messages: readonly Message[], n: number): FakeReply => {
    const envelope = JSON.parse(messages[0]?.content[0]?.text ?? "{}") as {
      intent: { client_messages: readonly string[] };
      call: { input: { command?: string } };
    };
    const job = JOB.exec(envelope.intent.client_messages.at(-1) ?? "")?.[1];
    if (job === undefined) complaints.push(`provider request ${n}: there is no job in the intent`);
    const count = {
      requestId: `req_fault_${n}`,
      job: job ?? "",
      input: 100 + n,
      output: 10 + (n % 17),
      refused: false,
    };
    calls.set(count.requestId, { ...count, evaluates: envelope.call.input.command ?? "" });
    const events = answerEvents({
      id: `msg_${count.requestId}`,
      model: "fault-1",
      blocks: [{ type: "text", text: '{"permission":"allow"}' }],
      stopReason: "end_turn",
      usage: { ...NO_CACHE, inputTokens: count.input, outputTokens: count.output },
    });
    return { headers: { "request-id": count.requestId }, steps: steps(events, options.pauseMs?.(n) ?? 0) };
  };

  const answer = (
    asked: Job,
    count: { readonly requestId: string; readonly input: number; readonly output: number },
  ) => {
    const round = ROUNDS[asked.kind][asked.round];
    const uses = (round ?? []).map((name, position) => {
      const id = `toolu_${asked.name}_${asked.round}_${position}_${count.requestId}`;
      const input =
        name === "bash"
          ? { command: `echo ${id} >> ${BASH_FILE}` }
          : { file_path: EDIT_FILE, old_string: EDIT_FILE_START, new_string: `${id}\n${EDIT_FILE_START}` };
      issued.set(id, JSON.stringify({ name, input }));
      return { type: "tool_use", id, name, input } as const;
    });
    const text = {
      type: "text",
      text: round === undefined ? answerTo(asked.name) : `Working on ${asked.name}.`,
    } as const;
    return answerEvents({
      id: `msg_${count.requestId}`,
      model: "fault-1",
      blocks: [text, ...uses],
      stopReason: round === undefined ? "end_turn" : "tool_use",
      usage: { ...NO_CACHE, inputTokens: count.input, outputTokens: count.output },
    });
  };

  const model: FakeModel = await startFakeModel({ script });
  return { url: model.url, calls, complaints, newest: (name) => newest.get(name), close: () => model.close() };
}

const NO_CACHE = { cacheReadInputTokens: 0, cacheCreationInputTokens: 0, webSearchRequests: 0, webFetchRequests: 0 };

function steps(events: readonly string[], pauseMs: number): FakeReply["steps"] {
  if (pauseMs === 0) return [{ bytes: events.map(sse).join("") }];
  const middle = Math.ceil(events.length / 2);
  return [
    ...events.slice(0, middle).map((data) => ({ data })),
    { waitMs: pauseMs },
    ...events.slice(middle).map((data) => ({ data })),
  ];
}

interface Job {
  readonly name: string;
  readonly kind: JobKind;
  /** Answers that the model has given to it already. */
  readonly round: number;
}

const JOB = /^JOB (\S+) (say|bash|ask|full)$/;

/** The last job of the conversation, and how far it is. */
export function currentJob(messages: readonly Message[]): Job | null {
  for (const [index, message] of [...messages.entries()].reverse()) {
    if (message.role !== "user") continue;
    const text = message.content.findLast((block) => block.type === "text" && JOB.test(block.text ?? ""))?.text ?? "";
    const [, name, kind] = JOB.exec(text) ?? [];
    if (name === undefined) continue;
    const round = messages.slice(index).filter(({ role }) => role === "assistant").length;
    return { name, kind: kind as JobKind, round };
  }
  return null;
}

/** The names of the jobs in a conversation, in order. */
export function jobsOf(messages: readonly Message[]): string[] {
  return messages
    .filter(({ role }) => role === "user")
    .flatMap(({ content }) => content.flatMap((block) => JOB.exec(block.text ?? "")?.[1] ?? []));
}

/** A request that ends with the assistant's words: legal only where the model paused. */
export const NOT_USERS = "the last message is not the user's";

/** What a provider would refuse, and what we never sent. */
export function illegalities(messages: readonly Message[], issued?: ReadonlyMap<string, string>): string[] {
  const wrong: string[] = [];
  const used = new Set<string>();
  if (messages[0]?.role !== "user") wrong.push("the first message is not the user's");
  if (messages.at(-1)?.role !== "user") wrong.push(NOT_USERS);
  for (const [index, { role, content }] of messages.entries()) {
    const before = messages[index - 1];
    if (before?.role === role) wrong.push(`two messages of the ${role} follow each other`);
    if (content.length === 0) wrong.push(`message ${index} is empty`);
    if (content.some((block) => block.type === "text" && block.text?.trim() === "")) wrong.push("a text is blank");
    const results = content.filter((block) => block.type === "tool_result");
    const open = role === "user" ? (before?.content ?? []).filter((block) => block.type === "tool_use") : [];
    const answered = results.map((block) => block.tool_use_id ?? "");
    for (const { id } of open) {
      const times = answered.filter((one) => one === id).length;
      if (times !== 1) wrong.push(`${id} has ${times} results in the next message`);
    }
    for (const id of answered)
      if (!open.some((use) => use.id === id)) wrong.push(`a result is for ${id}, which is no call`);
    if (content.slice(0, results.length).some((block) => block.type !== "tool_result")) {
      wrong.push(`results do not come first in message ${index}`);
    }
    for (const block of content.filter(({ type }) => type === "tool_use")) {
      if (role !== "assistant") wrong.push("the user calls a tool");
      if (used.has(block.id ?? "")) wrong.push(`${block.id} is there twice`);
      used.add(block.id ?? "");
      const sent = issued?.get(block.id ?? "");
      if (issued !== undefined && sent !== JSON.stringify({ name: block.name, input: block.input }))
        wrong.push(`${block.id} is not as we sent it`);
    }
  }
  const jobs = jobsOf(messages);
  if (new Set(jobs).size !== jobs.length) wrong.push(`a message is there twice: ${jobs.join(", ")}`);
  return wrong;
}
