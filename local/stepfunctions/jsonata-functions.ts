/**
 * The functions that Step Functions adds to JSONata 2.0.6.
 *
 * Each throws a plain error for arguments it cannot take; the expression then fails with States.QueryEvaluationError.
 */

import { createHash, randomUUID } from "node:crypto";
import type jsonata from "jsonata";
import type { Json } from "./json.ts";

const HASH_ALGORITHMS = new Map([
  ["MD5", "md5"],
  ["SHA-1", "sha1"],
  ["SHA-256", "sha256"],
  ["SHA-384", "sha384"],
  ["SHA-512", "sha512"],
]);

/** Most elements that $range makes; a larger request is an error, as with States.ArrayRange. */
const LONGEST_RANGE = 1_000;

export function registerStepFunctions(expression: jsonata.Expression): void {
  expression.registerFunction("parse", parse, "<s:x>");
  expression.registerFunction("partition", partition, "<an:a>");
  expression.registerFunction("range", range, "<nnn:x>");
  expression.registerFunction("hash", hash, "<ss:s>");
  expression.registerFunction("random", random, "<n?:n>");
  expression.registerFunction("uuid", () => randomUUID(), "<:s>");
}

function parse(text: string | undefined): Json | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Json);
}

function partition(values: readonly Json[] | undefined, size: number): Json[][] | undefined {
  if (values === undefined) return undefined;
  if (!Number.isInteger(size) || size < 1) throw new Error("$partition needs a positive integer size");
  const chunks: Json[][] = [];
  for (let start = 0; start < values.length; start += size) chunks.push(values.slice(start, start + size));
  return chunks;
}

function range(first: number, last: number, step: number): Json | undefined {
  if (![first, last, step].every(Number.isInteger)) throw new Error("$range needs integers");
  if (step === 0) throw new Error("$range needs a step other than 0");
  if ((last - first) / step >= LONGEST_RANGE) throw new Error(`$range makes at most ${LONGEST_RANGE} elements`);
  const values: number[] = [];
  for (let value = first; step > 0 ? value <= last : value >= last; value += step) values.push(value);
  // Step Functions answers with a JSONata sequence: one element stands for itself, none for nothing.
  return values.length > 1 ? values : values[0];
}

function hash(data: string | undefined, algorithm: string): string | undefined {
  if (data === undefined) return undefined;
  const name = HASH_ALGORITHMS.get(algorithm);
  if (name === undefined) throw new Error("$hash needs MD5, SHA-1, SHA-256, SHA-384 or SHA-512");
  return createHash(name).update(data).digest("hex");
}

/**
 * With a seed the number is the same each time, but not the number that AWS would give: its generator is not published.
 */
function random(seed?: number): number {
  if (seed === undefined) return Math.random();
  return createHash("sha256").update(String(seed)).digest().readUIntBE(0, 6) / 2 ** 48;
}
