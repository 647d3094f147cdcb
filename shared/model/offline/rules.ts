/**
 * How the offline model understands a request: plain patterns, tried in order, first match wins. It knows the agent
 * toolset (bash, read, write, edit, glob, grep) and calls any other offered tool that the user names.
 */
import { bare, firstQuoted, splitClauses } from "./clauses.ts";
import { plausibleInput } from "./plausible-input.ts";
import type { OfferedTool } from "./requests.ts";

/** One thing that was asked for, as a tool call. */
export interface Step {
  readonly tool: string;
  readonly input: unknown;
  /** What the call does, after "I'll": `read README.md`. */
  readonly doing: string;
}

export interface Plan {
  readonly steps: readonly Step[];
  /** The user wants the calls in one round. */
  readonly parallel: boolean;
}

const PATH = String.raw`(?:\x60[^\x60]+\x60|"[^"]+"|'[^']+'|[\w@~./-]*[\w-]\.[\w-]+|[\w@~.-]+\/[\w@~./-]*|\/[\w@~./-]+|README|LICENSE|Makefile|Dockerfile)`;
const FILE = String.raw`(?:(?:the|a|my|our)\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+|named\s+)?(${PATH})(?:\s+file)?`;

/** `RegExp` source with `FILE` for the word FILE; case does not count. */
const pattern = (source: string) => new RegExp(source.replaceAll("FILE", FILE), "i");

const REPLACE_IN = pattern(String.raw`\b(?:replace|change)\s+(.+?)\s+(?:with|to|by)\s+(.+?)\s+in\s+FILE`);
const IN_REPLACE = pattern(
  String.raw`\b(?:in|edit)\s+FILE\s*[,:]?\s*(?:and\s+)?(?:replac(?:e|ing)|chang(?:e|ing))\s+(.+?)\s+(?:with|to|by)\s+(.+)$`,
);
const CREATE_WITH = pattern(
  String.raw`\b(?:create|make|write|save)\s+FILE\s*(?:with|containing|that says|saying|:)\s*(?:the\s+)?(?:(?:content|contents|text|line)s?\s*:?\s+)?(.+)$`,
);
const WRITE_TO = pattern(String.raw`\b(?:write|save|put)\s+(.+?)\s+(?:to|into|in)\s+FILE`);
const CREATE_EMPTY = pattern(String.raw`\b(?:create|make)\s+(?:an?\s+empty\s+)?FILE`);
// Only at the head of a clause: "why did the last run fail?" is no order.
const RUN =
  /^(?:(?:please|now|also|first|next|finally|then|just|again|can|could|would|will|you|let's|i|want|to|use|bash|and)[\s,:]+)*(?:run|execute)\s+(.+)$/i;
const LIST = /\b(?:list|find|show)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files?\b(?:\s+matching)?\s*)?(.*)$/i;
const SEARCH = /\b(?:grep|search|look)\s+(?:for\s+)?(.+)$/i;
// A plain word can be the folder only after a single word or something in quotes.
const SOUGHT_IN = pattern(
  String.raw`^(?:(.+?)\s+(?:in|under|inside)\s+FILE|(\S+|"[^"]+"|\x60[^\x60]+\x60)\s+(?:in|under|inside)\s+(?:the\s+)?([\w-]+)(?:\s+(?:folder|directory))?)[.!?]?$`,
);
const READ = pattern(
  String.raw`\b(?:read|open|show(?:\s+me)?|cat|print|display|view|summari[sz]e|compare|look\s+at|explain|what(?:'s|\s+is|\s+does)?)\b.*?${PATH}`,
);
const PARALLEL = /\b(?:in parallel|at the same time|at once|simultaneously|concurrently)\b/i;

/** The patterns take more than linear time on a text made to defeat them. */
const MAX_INSTRUCTION_CHARS = 4000;

/** The calls that an instruction asks for, in order. Tools need not be offered: the answer says what is missing. */
export function plan(instruction: string, tools: readonly OfferedTool[]): Plan {
  const considered = instruction.slice(0, MAX_INSTRUCTION_CHARS);
  const clauses = splitClauses(considered.replace(PARALLEL, ""));
  return { steps: clauses.flatMap((clause) => stepsOf(clause, tools)), parallel: PARALLEL.test(considered) };
}

function stepsOf(clause: string, tools: readonly OfferedTool[]): readonly Step[] {
  const single =
    namedTool(clause, tools) ??
    editStep(clause) ??
    writeStep(clause) ??
    runStep(clause) ??
    globStep(clause) ??
    grepStep(clause);
  return single ? [single] : readSteps(clause);
}

const TOOLSET: ReadonlySet<string> = new Set(["bash", "read", "write", "edit", "glob", "grep"]);

function namedTool(clause: string, tools: readonly OfferedTool[]): Step | null {
  const words = new Set(clause.toLowerCase().match(/[\w-]+/g));
  const tool = tools.find(({ name }) => !TOOLSET.has(name) && words.has(name.toLowerCase()));
  return tool ? { tool: tool.name, input: plausibleInput(clause, tool.schema), doing: `call ${tool.name}` } : null;
}

function editStep(clause: string): Step | null {
  const [, oldText, newText, file] = clause.match(REPLACE_IN) ?? [];
  if (oldText && newText && file) return edit(file, oldText, newText);
  const [, before, from, to] = clause.match(IN_REPLACE) ?? [];
  return before && from && to ? edit(before, from, to) : null;
}

function edit(file: string, oldText: string, newText: string): Step {
  const path = bare(file);
  const input = { file_path: path, old_string: bare(oldText), new_string: bare(newText) };
  return { tool: "edit", input, doing: `edit ${path}` };
}

function writeStep(clause: string): Step | null {
  const [, created, content] = clause.match(CREATE_WITH) ?? [];
  if (created && content) return write(created, bare(content));
  const [, written, target] = clause.match(WRITE_TO) ?? [];
  if (written && target) return write(target, bare(written));
  const [, empty] = clause.match(CREATE_EMPTY) ?? [];
  return empty ? write(empty, "") : null;
}

function write(file: string, content: string): Step {
  const path = bare(file);
  return { tool: "write", input: { file_path: path, content }, doing: `write ${path}` };
}

function runStep(clause: string): Step | null {
  const [, rest] = clause.match(RUN) ?? [];
  if (!rest) return null;
  const stated = rest.replace(/^(?:the\s+)?(?:(?:bash|shell)\s+)?command\s*:?\s*/i, "");
  // "run the tests" names no command; only quotes or a bare command line do.
  const command = firstQuoted(stated) ?? (/^(?:the|my|our|a|an|all|it|this|that)\b/i.test(stated) ? "" : bare(stated));
  return command === "" ? null : { tool: "bash", input: { command }, doing: `run \`${command}\`` };
}

function globStep(clause: string): Step | null {
  const [, rest = ""] = clause.match(LIST) ?? [];
  const globbed = clause.match(/[\w./*?{}[\],-]*\*[\w./*?{}[\],-]*/)?.[0]?.replace(/[.,]$/, "");
  const isList = /\b(?:list|find|show)\b[^`"]*\bfiles\b/i.test(clause);
  if (!LIST.test(clause) || !(globbed || isList)) return null;
  const folder = rest.match(/\b(?:in|under|inside)\s+(?:the\s+)?(?:folder\s+|directory\s+)?([\w./-]+)/i)?.[1];
  const inFolder =
    folder && /^(?:this|here|current|workspace)$/i.test(folder) ? undefined : folder?.replace(/[./]+$/, "");
  const glob = globbed ?? "*";
  const input = { pattern: inFolder ? `${inFolder}/${glob}` : glob };
  return { tool: "glob", input, doing: `list the files that match ${input.pattern}` };
}

function grepStep(clause: string): Step | null {
  const [, rest] = clause.match(SEARCH) ?? [];
  if (!rest || /^(?:at|the\s+web)\b/i.test(rest)) return null;
  const [, inFile, file, inFolder, folder] = rest.match(SOUGHT_IN) ?? [];
  const where = file ?? folder;
  const text = bare(inFile ?? inFolder ?? rest);
  const input = where ? { pattern: text, path: bare(where) } : { pattern: text };
  return { tool: "grep", input, doing: `search for ${text}` };
}

/** "read a.md and b.md" is two calls. */
function readSteps(clause: string): Step[] {
  if (!READ.test(clause)) return [];
  return [...clause.matchAll(new RegExp(PATH, "g"))].map(([path]) => {
    const file = bare(path);
    return { tool: "read", input: { file_path: file }, doing: `read ${file}` };
  });
}
