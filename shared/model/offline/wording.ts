/** What the offline model says. */
import type { OfferedTool, PastCall } from "./requests.ts";
import type { Step } from "./rules.ts";

const MAX_QUOTED_LINES = 12;
const MAX_QUOTED_CHARS = 600;

export function announce(steps: readonly Step[], isFirst: boolean): string {
  const doing = joined(steps.map((step) => step.doing));
  const together = steps.length > 1 ? " at the same time" : "";
  return isFirst ? `I'll ${doing}${together}.` : `Next I'll ${doing}${together}.`;
}

/** The last words of a turn with calls: each result in short, then what could not be done for want of a tool. */
export function report(calls: readonly PastCall[], steps: readonly Step[], missing: readonly Step[]): string {
  const results = calls.map((call, position) => resultOf(call, steps[position]));
  const unmet = missing.map(
    (step) => `To ${step.doing} I would need the ${step.tool} tool, which this agent does not offer.`,
  );
  return [...results, ...unmet].join("\n\n");
}

function resultOf(call: PastCall, step: Step | undefined): string {
  const doing = step?.tool === call.name ? step.doing : `call ${call.name}`;
  if (call.isError) return `I could not ${doing}: ${excerpt(call.result) || "there is no result"}`;
  return call.result.trim() === ""
    ? `I asked to ${doing}; there was no output.`
    : `I asked to ${doing}. The result:\n\n${excerpt(call.result)}`;
}

function excerpt(text: string): string {
  const trimmed = text.trim();
  const lines = trimmed.split("\n").slice(0, MAX_QUOTED_LINES).join("\n");
  const shown = [...lines].slice(0, MAX_QUOTED_CHARS).join("");
  return shown.length < trimmed.length ? `${shown}\n… (shortened)` : shown;
}

const EXAMPLES: Readonly<Record<string, string>> = {
  read: '"read README.md"',
  bash: '"run `ls -la`"',
  write: '"write hello to notes.txt"',
  edit: '"replace hello with goodbye in notes.txt"',
  glob: '"find *.md"',
  grep: '"search for TODO"',
};

/** The answer when no tool was asked for. */
export function introduce(instruction: string, tools: readonly OfferedTool[]): string {
  const examples = tools.map(({ name }) => EXAMPLES[name] ?? `"call ${name}"`).slice(0, 10);
  const said = [...instruction.replace(/\s+/g, " ")].slice(0, 200).join("");
  return [
    said === "" ? "There was no text for me to answer." : `You said: ${said}`,
    "I am Mango's offline model: fixed rules that need no key and no network, not an AI.",
    examples.length > 0
      ? `With this agent's tools you can ask me to ${joined(examples, "or")}; several requests can be joined with "then".`
      : "This agent offers no tools that I could call.",
    "For a real model set MANGO_MODEL_BASE_URL, MANGO_MODEL_API_KEY and MANGO_MODEL_ID.",
  ].join("\n\n");
}

function joined(parts: readonly string[], word = "and"): string {
  const [last = "", ...before] = [...parts].reverse();
  return before.length === 0 ? last : `${before.reverse().join(", ")} ${word} ${last}`;
}
