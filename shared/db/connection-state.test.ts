import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

/**
 * What leaves state in a connection pins it to one client of RDS Proxy, or leaks through a pool: looked for in all SQL
 * and pool code that runs behind the proxy. The migrator has a connection of its own to the cluster.
 */
const FORBIDDEN: readonly (readonly [what: string, form: RegExp])[] = [
  ["a setting of the session", /["'`]\s*(set|reset)\s+(session\s+|local\s+)?[\w.]+|set_config\s*\(/i],
  ["a subscription", /["'`]\s*(un)?listen\s+\w/i],
  ["a named statement", /["'`]\s*prepare\s+\w|\.query\(\s*\{[^}]*\bname\b/i],
  ["a lock of the session", /pg_(try_)?advisory_lock(_shared)?\s*\(/i],
  ["a sequence", /\b(nextval|currval|lastval|setval)\s*\(/i],
  ["a temporary table or a cursor", /create\s+temp(orary)?\s|["'`]\s*declare\s+\w+\s+.*cursor/i],
  // A `begin` sent to a pool may land on another connection than what follows it.
  ["F29: a transaction outside inTransaction", /\.query\(\s*["'`]\s*(begin|start\s+transaction|commit)/i],
  ["options of the connection", /options:\s*["'`]-c /],
];
/** Files that may hold one of these, and which. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  "shared/db/transaction.ts": ["F29: a transaction outside inTransaction"],
  // On the cluster itself, with connections that end with the migration.
  "shared/db/migrate.ts": ["F29: a transaction outside inTransaction", "a setting of the session"],
  "shared/db/application-role.ts": ["F29: a transaction outside inTransaction"],
};

const project = new URL("../../", import.meta.url);
const sources = ["shared", "functions"].flatMap((room) =>
  readdirSync(new URL(room, project), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !/\.test(suite)?\.ts$/.test(file) && !file.includes("testing/"))
    .map((file) => `${room}/${file}`),
);

function findings(text: string): string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
  return FORBIDDEN.filter(([, form]) => form.test(code)).map(([what]) => what);
}

test("no statement and no pool leaves state in a connection", () => {
  const found = sources.flatMap((file) =>
    findings(readFileSync(new URL(file, project), "utf8"))
      .filter((what) => !EXCEPTIONS[file]?.includes(what))
      .map((what) => `${file}: ${what}`),
  );

  expect(sources.length).toBeGreaterThan(100);
  expect(found).toEqual([]);
});

test("no table counts with a sequence", () => {
  const migrations = readdirSync(new URL("shared/db/migrations", project));
  const counting = migrations.filter((file) =>
    /\b(small|big)?serial\b|as\s+identity|create\s+sequence/i.test(
      readFileSync(new URL(`shared/db/migrations/${file}`, project), "utf8"),
    ),
  );

  expect(migrations.length).toBeGreaterThan(5);
  expect(counting).toEqual([]);
});

test("pools are made in two places, and single connections by the migrator alone", () => {
  const makers = sources.filter((file) => /new pg\.(Pool|Client)\(/.test(readFileSync(new URL(file, project), "utf8")));

  expect(makers.sort()).toEqual([
    "functions/migrate.lambda.ts",
    "shared/db/application-role.ts",
    "shared/db/aws-database.ts",
    "shared/db/migrate.ts",
    "shared/db/pool.ts",
  ]);
});

describe("the search finds", () => {
  test.each([
    ['await client.query("set statement_timeout = 5")', "a setting of the session"],
    ["select set_config('app.tenant', $1, false)", "a setting of the session"],
    ['client.query("LISTEN events")', "a subscription"],
    ['client.query({ text: "select 1", name: "one" })', "a named statement"],
    ["`select pg_advisory_lock($1)`", "a lock of the session"],
    ["`select nextval('seq')`", "a sequence"],
    ['pool.query("BEGIN")', "F29: a transaction outside inTransaction"],
  ])("%s", (code, what) => {
    expect(findings(code)).toEqual([what]);
  });

  test.each(["pg_advisory_xact_lock($1)", "update sessions set title = $2", "// set search_path", "for update"])(
    "nothing in %s",
    (code) => {
      expect(findings(code)).toEqual([]);
    },
  );
});
