/** The one of `names` that takes the fewest single-letter edits to reach from `name`. */
export function nearest(name: string, names: readonly string[]): string {
  const ranked = names.map((candidate) => ({ candidate, edits: edits(name, candidate) }));
  return ranked.reduce((best, next) => (next.edits < best.edits ? next : best)).candidate;
}

/** Levenshtein's distance, one row of the table at a time. */
function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [column, other] of [...to].entries()) {
      const [above = 0, diagonal = 0, left = 0] = [row[column + 1], row[column], next[column]];
      next.push(Math.min(above + 1, left + 1, diagonal + (letter === other ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
