import Table from "cli-table3";

/** Columns without lines between them: pleasant to read, easy to cut. */
const NO_LINES = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
};

/** A table for a terminal, its head first; ends with a line break. */
export function terminalTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const table = new Table({ chars: NO_LINES, style: { "padding-left": 0, "padding-right": 0, head: [], border: [] } });
  table.push([...head], ...rows.map((row) => [...row]));
  return `${table.toString().replace(/ +$/gm, "")}\n`;
}
