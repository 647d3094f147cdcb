import { z } from "zod";
import { noTools, type ToolCall, type ToolExecutor, type ToolOutcome } from "../turns/tool-executor.ts";
import type { DomainRule } from "./domain-rule.ts";
import type { PageOutcome, PageRequest } from "./fetch-page.ts";
import { hasAppeared } from "./seen-urls.ts";

/** Fetches a page, here or in a process of its own. A rejection means that it could not even be asked. */
export type PageFetcher = (request: PageRequest, signal: AbortSignal) => Promise<PageOutcome>;

const Input = z.object({ url: z.string() });

/** An agent that says nothing of max_content_tokens. */
const DEFAULT_TOKENS = 25_000;
/** The most that a result may hold, whatever the agent says: it is kept in the ledger and sent with every request. */
const MAX_TOKENS = 100_000;
/** About what a token stands for. */
const CHARACTERS_PER_TOKEN = 4;

/**
 * web_fetch as a tool of the server's own: every call goes through the policy, the gate and the journal before anything
 * is asked of the network. A fetch changes nothing elsewhere (it is a GET), so one that failed is an error of which the
 * model is told; only a process that is lost on the way leaves a call ambiguous. Nothing is cached.
 */
export function managedWebFetch(options: {
  readonly fetchPage: PageFetcher;
  /** What this deployment lets its agents fetch, besides what each agent's own config says. */
  readonly domains: DomainRule;
}): ToolExecutor {
  return {
    manages: ["web_fetch"],
    run: (call) => (call.name === "web_fetch" ? run(call, options) : noTools.run(call)),
  };
}

async function run(call: ToolCall, options: Parameters<typeof managedWebFetch>[0]): Promise<ToolOutcome> {
  const input = Input.safeParse(JSON.parse(call.input));
  if (!input.success) {
    return refused("web_fetch needs a url, as a string.");
  }
  const { url } = input.data;
  const { tools, readTranscript } = call.session;
  const settings = tools.find(({ name }) => name === call.name)?.webFetch ?? {};
  if (!hasAppeared(url, { transcript: await readTranscript(), tools, sources: settings.url_sources })) {
    return refused(
      "This URL has not appeared in the conversation, so it is not fetched. Give a URL exactly as it stands in a message or in a tool's result, or ask the user for it.",
    );
  }
  const tokens = Math.min(settings.max_content_tokens ?? DEFAULT_TOKENS, MAX_TOKENS);
  const agents = { allowed: settings.allowed_domains ?? null, blocked: settings.blocked_domains ?? null };
  const request = { url, domains: [options.domains, agents], max_characters: tokens * CHARACTERS_PER_TOKEN };
  let outcome: PageOutcome;
  try {
    outcome = await options.fetchPage(request, call.signal);
  } catch {
    return refused("The page could not be fetched.");
  }
  const provenance = JSON.stringify(outcome.provenance);
  return outcome.kind === "page"
    ? { content: asContent(pageText(outcome)), isError: false, provenance }
    : { content: asContent(outcome.message), isError: true, provenance };
}

function pageText({ text, cut, provenance }: Extract<PageOutcome, { kind: "page" }>): string {
  const head = `${provenance.final_url} (${provenance.media_type})`;
  const end = cut ? `\n\n[Cut here: the page goes on after its first ${text.length} characters.]` : "";
  return `${head}\n\n${text === "" ? "(no text)" : text}${end}`;
}

const asContent = (text: string) => JSON.stringify([{ type: "text", text }]);
const refused = (text: string): ToolOutcome => ({ content: asContent(text), isError: true });
