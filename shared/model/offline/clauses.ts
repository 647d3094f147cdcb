/** Takes an instruction apart: "read a.md and then run `ls`" is two clauses. */

/** Words that can begin a request; "and" before any other word joins things, not requests. */
const VERBS =
  "read|open|show|cat|print|display|view|summari[sz]e|run|execute|write|save|create|make|edit|replace|change|list|find|search|grep|look|call|use|tell|give|explain|answer|say|ask";

const JOINT = new RegExp(
  String.raw`(?:\s*[,;]\s*|\s+)(?:and\s+then|then|and|after\s+that)\s+(?=(?:please\s+|also\s+)*(?:${VERBS})\b)` +
    String.raw`|\s*[;\n]+\s*|(?<!\bin\s+\S+)\s*,\s+(?=(?:${VERBS})\b)|[.!?]\s+`,
  "gi",
);

const QUOTED = /`[^`]*`|"[^"]*"|'[^'\s][^']*'|“[^”]*”/g;

/** The parts of an instruction that each ask for one thing. What stands in quotes is never split. */
export function splitClauses(instruction: string): string[] {
  const quoted = [...instruction.matchAll(QUOTED)].map(
    (match) => [match.index, match.index + match[0].length] as const,
  );
  const clauses: string[] = [];
  let start = 0;
  for (const joint of instruction.matchAll(JOINT)) {
    if (quoted.some(([from, to]) => joint.index > from && joint.index < to)) continue;
    clauses.push(instruction.slice(start, joint.index));
    start = joint.index + joint[0].length;
  }
  clauses.push(instruction.slice(start));
  return clauses.map((clause) => clause.trim()).filter((clause) => clause !== "");
}

/** The contents of the first quotes (or backticks) in a text. */
export function firstQuoted(text: string): string | undefined {
  return text.match(QUOTED)?.[0].slice(1, -1);
}

/** Without quotes around the whole and the full stop of a sentence. */
export function bare(text: string): string {
  const trimmed = text
    .trim()
    .replace(/[.!?]+$/, "")
    .trim();
  return firstQuoted(trimmed)?.length === trimmed.length - 2 ? trimmed.slice(1, -1) : trimmed;
}
