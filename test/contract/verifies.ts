/**
 * Ties a test to the requirements that it proves. The id must be a string literal in the call: `coverage.test.ts` reads
 * the sources to see that every requirement has its test and every test its requirement.
 */
import { type TestFunction, test } from "vitest";
import { REQUIREMENTS, type RequirementId } from "./requirements.ts";

const says: ReadonlyMap<string, string> = new Map(
  REQUIREMENTS.map((requirement) => [requirement.id, requirement.says]),
);

type Named = readonly [title: string, prove: TestFunction];

/** A test of this requirement. Without a title of its own it is called after the requirement. */
export function verifies(id: RequirementId, ...rest: readonly [prove: TestFunction] | Named): void {
  const [title, prove] = named(id, rest);
  test(title, prove);
}

/**
 * A requirement that the server does not meet, known and decided upon: it must fail. Once it passes the build breaks,
 * so that the gap is taken off the list.
 *
 * @public: there may be none.
 */
export function knownGap(id: RequirementId, ...rest: readonly [prove: TestFunction] | Named): void {
  const [title, prove] = named(id, rest);
  test.fails(`known gap: ${title}`, prove);
}

function named(id: RequirementId, rest: readonly [prove: TestFunction] | Named): Named {
  const own = rest.length === 2 ? `: ${rest[0]}` : "";
  return [`${id} · ${says.get(id) ?? "?"}${own}`, rest.length === 2 ? rest[1] : rest[0]];
}
