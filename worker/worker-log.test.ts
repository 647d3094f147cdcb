import { expect, it } from "vitest";
import { jsonLog, textLog } from "./worker-log.ts";

it("writes one readable line of text", () => {
  const lines: string[] = [];
  const log = textLog((line) => lines.push(line), { debug: false, colours: false });
  log.info("claimed work", { work: "work_1", note: "two words", missing: undefined });
  log.debug("not shown");
  expect(lines.length).toBe(1);
  expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d info {2}claimed work {2}work=work_1 note="two words"\n$/);
});

it("writes one JSON object a line", () => {
  const lines: string[] = [];
  const log = jsonLog((line) => lines.push(line), { debug: true });
  log.debug("tick", { n: 1 });
  expect(JSON.parse(lines[0] ?? "")).toEqual({ time: expect.any(String), level: "debug", message: "tick", n: 1 });
});
