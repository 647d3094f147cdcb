import { terminalTable } from "../../local/terminal-table.ts";

/** The value below which `share` of the samples lie (nearest rank). `share` is in (0, 1]. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** One decimal, for milliseconds and megabytes. */
export function fixed(value: number): string {
  return value.toFixed(1);
}

/** A row of the report. `target` is the design's figure; the verdict is the reader's. */
export interface Row {
  readonly what: string;
  readonly measured: string;
  readonly target: string;
  /** Null for a reference, which has no target. */
  readonly met: boolean | null;
}

/** The report as a table for the terminal. */
export function table(rows: readonly Row[]): string {
  return terminalTable(
    ["what", "measured", "target", ""],
    rows.map((row) => [row.what, row.measured, row.target, row.met === null ? "" : row.met ? "ok" : "missed"]),
  );
}
