import { expect, test } from "vitest";
import { terminalTable } from "./terminal-table.ts";

test("columns are as wide as their widest cell, and no line ends in spaces", () => {
  expect(
    terminalTable(
      ["what", "measured", ""],
      [
        ["a long one ☃", "1", "ok"],
        ["b", "", ""],
      ],
    ),
  ).toBe("what          measured\na long one ☃  1         ok\nb\n");
});
