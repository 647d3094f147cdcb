import type { OperatorThing } from "../../shared/operator/commands.ts";
import { terminalTable } from "../terminal-table.ts";

/** What an operator reads: a table, and below it a secret that is shown this once. */
export function printed(result: OperatorThing | readonly OperatorThing[]): string {
  const things = Array.isArray(result) ? (result as readonly OperatorThing[]) : [result as OperatorThing];
  if (things.length === 0) {
    return "There are none.\n";
  }
  const columns = COLUMNS[things[0]?.type ?? "workspace"];
  const table = terminalTable(
    columns.map((column) => column.replaceAll("_", " ").replace(/ at$/, "")),
    things.map((thing) => columns.map((column) => cell((thing as unknown as Record<string, unknown>)[column]))),
  );
  const { secret } = things[0] ?? {};
  return secret === undefined ? table : `${table}\n${secret}\n\nKeep it now: it is not shown again.\n`;
}

const COLUMNS = {
  workspace: ["id", "name", "created_at"],
  api_key: ["id", "name", "workspace_id", "created_at", "revoked_at"],
  environment_key: ["id", "name", "environment_id", "created_at", "rotated_at", "revoked_at"],
} as const satisfies Record<OperatorThing["type"], readonly string[]>;

function cell(value: unknown): string {
  if (value === null || value === undefined) {
    return "-";
  }
  // To the second is enough for people.
  return String(value).replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+Z$/, "$1 $2 UTC");
}
