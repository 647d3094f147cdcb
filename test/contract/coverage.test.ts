/** Every requirement has a test that cites it, and every citation a requirement. */
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { REQUIREMENTS } from "./requirements.ts";

const TESTS = path.resolve(import.meta.dirname, "..");

async function citations(): Promise<string[]> {
  const files = (await readdir(TESTS, { recursive: true })).filter((name) => name.endsWith(".test.ts"));
  const sources = await Promise.all(files.map((name) => readFile(path.join(TESTS, name), "utf8")));
  return sources.flatMap((source) =>
    [...source.matchAll(/\b(?:verifies|knownGap)\(\s*"([^"]+)"/g)].map(([, id]) => id ?? ""),
  );
}

test("ids are unique and written in one form", () => {
  const ids = REQUIREMENTS.map(({ id }) => id);
  expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
  expect(ids.filter((id) => !/^[a-z0-9-]+(:[a-z0-9-]+)+$/.test(id))).toEqual([]);
});

test("every requirement is cited by a test", async () => {
  const cited = new Set(await citations());
  expect(REQUIREMENTS.map(({ id }) => id).filter((id) => !cited.has(id))).toEqual([]);
});

test("every citation is a requirement", async () => {
  const known = new Set<string>(REQUIREMENTS.map(({ id }) => id));
  expect((await citations()).filter((id) => !known.has(id))).toEqual([]);
});

test("ids are cited as literals, so that this file can see them", async () => {
  const files = (await readdir(import.meta.dirname)).filter((name) => name.endsWith(".test.ts"));
  const sources = await Promise.all(files.map((name) => readFile(path.join(import.meta.dirname, name), "utf8")));
  const calls = sources.flatMap((source) => [...source.matchAll(/^\s*(?:verifies|knownGap)\(\s*([^\s])/gm)]);
  expect(calls.filter(([, first]) => first !== '"').map(([call]) => call)).toEqual([]);
});
