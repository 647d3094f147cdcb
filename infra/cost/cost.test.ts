import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { executionArn } from "../../local/stepfunctions/arn.ts";
import { EventFeed } from "../../test/e2e/event-feed.ts";
import { createSession, isTurnEnd, message, toolset } from "../../test/e2e/session-driver.ts";
import { startTestServer, type TestServer } from "../../test/server.ts";
import { synthesise } from "../testing/synthesised.ts";
import { type Deployment, idleMonth, streamHour, total, turnCost, waitingWorker } from "./cost.ts";
import { deploymentOf } from "./deployment.ts";
import { costDocument } from "./document.ts";
import { MEASURED } from "./measured.ts";

/** Round numbers, so that the sums can be followed by hand. */
const ROUND: Deployment = {
  memory: {
    Api: 1024,
    CallModel: 1024,
    CompleteTurn: 1024,
    GateTools: 1024,
    AwaitActions: 1024,
    Work: 1024,
    Stream: 512,
    Relay: 1024,
  },
  minCapacity: 1,
  proxied: true,
  natGateways: 1,
  keys: 1,
  secrets: 2,
  alarmMetrics: 10,
  dashboards: 1,
  streamLifeSeconds: 360,
};

describe("the sums", () => {
  test("of a turn: three states, ten seconds of a gigabyte, two short handlers, a stream with its place and fifty looks, two requests, fifty live messages", () => {
    const model = 0.0000002 + 0.000133334;
    const stream = 0.0000002 + 0.000066667 + 0.00000275 + 50 * 0.0000000625;
    const expected = 0.000075 + model + 2 * (0.0000002 + 0.00000133334) + stream + 2 * 0.0000035 + 0.00003125;

    expect(total(turnCost(ROUND, { states: 3, rounds: 1 }))).toBeCloseTo(expected, 9);
  });

  test("of a turn with a call: the worker's stream stays a minute longer than the twenty seconds of the client's", () => {
    const streams = turnCost(ROUND, { states: 9, rounds: 2 }).find(({ what }) => what === "Lambda: open streams");

    expect(streams?.dollars).toBeCloseTo(2 * 0.0000002 + (10 + 40) * 0.0000133334, 9);
  });

  test("of a turn with a call: two streams look five times a second for twenty, and the worker's thirty times more", () => {
    const items = turnCost(ROUND, { states: 9, rounds: 2 });
    const dollars = (name: string) => items.find(({ what }) => what === name)?.dollars;

    expect(dollars("Live channel")).toBeCloseTo(100 * 0.000000625 + (2 * 100 + 30) * 0.0000000625, 10);
    expect(dollars("Places of streams")).toBeCloseTo(2 * 0.00000275, 10);
  });

  test("of a waiting worker: a gigabyte all month, a request each twenty seconds, five looks a second", () => {
    const expected = 131_400 * (0.0000002 + 20 * 0.0000133334) + 131_400 * 0.0000035 + 13_140_000 * 0.0000000625;

    expect(total(waitingWorker(ROUND))).toBeCloseTo(expected, 6);
  });

  test("of an idle month: a unit of Aurora, eight of the proxy, a NAT with its address, a queue that is asked", () => {
    const items = Object.fromEntries(idleMonth(ROUND).map(({ what, dollars }) => [what, Number(dollars.toFixed(2))]));

    expect(items).toMatchObject({ "Aurora, 1 units": 87.6, "RDS Proxy": 87.6, NAT: 36.5, "Keys and secrets": 1.8 });
    // 5 requests each 20 s, 657,000 in all.
    expect(items["The relay's queue"]).toBe(0.26);
    expect(idleMonth({ ...ROUND, proxied: false }).map(({ what }) => what)).not.toContain("RDS Proxy");
  });

  test("of a thousand streams for an hour: half a gigabyte each, ten connects, a look each two seconds, a place each connect", () => {
    const expected =
      1_800_000 * 0.0000133334 + 10_000 * (0.0000002 + 0.0000035) + 900_000 * 0.000000125 + 10_000 * 0.00000275;

    expect(total(streamHour(ROUND))).toBeCloseTo(expected, 6);
  });
});

test("docs/cost.md is what npm run cost writes", () => {
  const usual = deploymentOf(synthesise());
  const pausing = deploymentOf(synthesise({ scaleToZero: "true" }));

  expect(readFileSync(new URL("../../docs/cost.md", import.meta.url), "utf8")).toBe(costDocument({ usual, pausing }));
}, 120_000);

describe("an execution", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer({ worker: true });
  });
  afterAll(() => server.close());

  test.each([
    ["plain", "hello", []],
    ["tool", "run `true`", [toolset()]],
  ] as const)(
    "of a %s turn has the counted states and events",
    async (kind, text, tools) => {
      const sessionId = await createSession(server, tools);
      const feed = await EventFeed.open(server, sessionId);
      await server.request(`/v1/sessions/${sessionId}/events`, { json: { events: [message(text)] } });
      await feed.until(isTurnEnd);
      feed.close();
      const { rows } = await server.database.pool.query<{ id: string }>("select id from turns where session_id = $1", [
        sessionId,
      ]);
      const arn = executionArn("turn", `${rows[0]?.id}-1`);

      // The turn's last transaction commits before its last state ends.
      await expect.poll(() => server.stepFunctions.counters(arn), { timeout: 10_000 }).toEqual(MEASURED[kind]);
    },
    60_000,
  );
});
