import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { documentOfSource } from "./document.ts";

test("the committed OpenAPI document is what the server serves (npm run openapi writes it)", async () => {
  expect(await readFile(new URL("../../docs/openapi.json", import.meta.url), "utf8")).toBe(documentOfSource());
});
