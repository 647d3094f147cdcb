import { afterEach, beforeEach, expect, test } from "vitest";
import { cleanUp, makeDataDir, startAndEnd } from "../e2e/real-server.ts";

let dataDir: string;
beforeEach(async () => {
  dataDir = await makeDataDir();
});
afterEach(() => cleanUp(dataDir));

test("npm start with a real model and no walls around its tools does not start, and says what to do", {
  timeout: 60_000,
}, async () => {
  const { code, output } = await startAndEnd(dataDir, {
    MANGO_MODEL_BASE_URL: "http://127.0.0.1:9",
    MANGO_WORKER_LAUNCHER: "process",
  });
  expect(code).toBe(1);
  expect(output).toContain("isolated from nothing");
  expect(output).toContain("bubblewrap");
  expect(output).toContain("MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER=1");
  expect(output).toContain("MANGO_WORKER=off");
});
