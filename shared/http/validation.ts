import type { z } from "@hono/zod-openapi";
import { type ApiError, InvalidRequest, Unsupported } from "../contract/errors.ts";
import { unsupportedFeature } from "../contract/schema.ts";

type Issue = z.core.$ZodIssue;

/** The error of a body or query that the schema refuses: the first fault, named by its path. 422 when it is a feature. */
export function validationError(error: { readonly issues: readonly Issue[] }): ApiError {
  const issues = error.issues.flatMap((issue) => flatten(issue));
  const feature = issues.find((issue) => unsupportedFeature(issue) !== undefined);
  const issue = feature ?? issues[0];
  const message = issue === undefined ? "The request is not valid." : describe(issue);
  if (feature !== undefined) {
    return new Unsupported(message);
  }
  return new InvalidRequest(
    message,
    issue?.path[0] === "metadata" ? { details: { error_code: "invalid_metadata" } } : {},
  );
}

/** A union's fault is the fault of the branch that came furthest: the one whose own discriminator matched. */
function flatten(issue: Issue, prefix: PropertyKey[] = []): Issue[] {
  const path = [...prefix, ...issue.path];
  if (issue.code !== "invalid_union" || issue.errors.length === 0) {
    return [{ ...issue, path }];
  }
  // "Or null" says nothing about what is wrong with a value that is not null.
  const meant = issue.errors.filter(
    (branch) => !branch.every((inner) => inner.code === "invalid_type" && inner.expected === "null"),
  );
  const branches = meant.map((branch) => branch.flatMap((inner) => flatten(inner, path)));
  if (branches.length === 1) {
    return branches[0] ?? [];
  }
  const depth = (branch: Issue[]) =>
    Math.max(0, ...branch.map((inner) => inner.path.length + (inner.code === "unrecognized_keys" ? 1 : 0)));
  const best = branches.reduce((deepest, branch) => (depth(branch) > depth(deepest) ? branch : deepest));
  return depth(best) > path.length ? best : [{ ...issue, path }];
}

function describe(issue: Issue): string {
  const where = pathText(issue.path);
  const named = (text: string) => (where === "" ? text : `${where}: ${text}`);
  switch (issue.code) {
    case "unrecognized_keys": {
      const field = pathText([...issue.path, issue.keys[0] ?? ""]);
      return `${field}: unknown field.`;
    }
    case "invalid_union":
      return issue.discriminator === undefined
        ? named("has the wrong type.")
        : named("is not one of the accepted types.");
    case "invalid_type":
      return issue.input === undefined && issue.message.includes("received undefined")
        ? named("is required.")
        : named(`${lowerFirst(issue.message)}.`);
    case "invalid_key":
      return named(`${lowerFirst(issue.issues[0]?.message ?? issue.message)}.`);
    default:
      return named(`${lowerFirst(issue.message)}.`);
  }
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** `["events", 0, "content"]` → `events[0].content`. */
function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") {
      return `${text}[${part}]`;
    }
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}
