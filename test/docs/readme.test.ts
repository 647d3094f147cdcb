import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { DEFAULT_ENVIRONMENT } from "../../local/default-environment.ts";
import { settingsTable } from "../../local/settings.ts";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const readme = await readFile(path.join(PROJECT, "README.md"), "utf8");

test("the README's table of settings is the one that the settings are read by", () => {
  const written = /<!-- settings -->\n([\s\S]*?)\n?<!-- \/settings -->/.exec(readme)?.[1]?.trim();
  expect(written).toBe(settingsTable());
});

test("every npm command in the README is a script of the package", async () => {
  const { scripts } = JSON.parse(await readFile(path.join(PROJECT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const named = [...readme.matchAll(/npm (?:run )?([a-z:]+)/g)]
    .map((match) => match[1])
    .filter((name) => !["brings"].includes(name ?? ""));
  expect(named.length).toBeGreaterThan(4);
  expect(named.filter((name) => scripts[name ?? ""] === undefined)).toEqual([]);
});

test("every document that the README links to exists", async () => {
  const links = [...readme.matchAll(/\]\((docs\/[^)]+)\)/g)].map((match) => match[1] ?? "");
  expect(links.length).toBeGreaterThan(3);
  for (const link of links) {
    await expect(readFile(path.join(PROJECT, link), "utf8")).resolves.not.toBe("");
  }
});

test("the environment id of the worked example is the default environment's", () => {
  expect(readme).toContain(`ENVIRONMENT=${DEFAULT_ENVIRONMENT}`);
});
