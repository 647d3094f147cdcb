/**
 * The turn rules under any interleaving: commands of fast-check admit input, run states once, twice or late, lose what is
 * said to Step Functions or say it twice, and let leases run out, on a real database without HTTP and without an
 * interpreter. `TURN_MODEL_SEED` and `TURN_MODEL_PATH` repeat a run.
 */
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { executionLost } from "../../shared/turns/reconcile.ts";
import { type ByHand, startByHand } from "./by-hand.ts";
import { allow, deny, REPLIES, type ReplyKind, result, TurnWorld } from "./fault-turn-world.ts";

const SEED = Number(
  process.env["TURN_MODEL_SEED"] ?? (process.env["FAULTS"] === "full" ? Date.now() % 2_147_483_647 : 20_261_201),
);
const PATH = process.env["TURN_MODEL_PATH"];
const RUNS = Number(process.env["TURN_MODEL_RUNS"] ?? (process.env["FAULTS"] === "full" ? 600 : 60));
const COMMANDS = 40;

let hand: ByHand;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());

/** A command that is one thing done to the world; `may` says whether there is anything to do it to. */
class Do implements fc.AsyncCommand<TurnWorld, TurnWorld> {
  readonly #name: string;
  readonly #may: (world: TurnWorld) => boolean;
  readonly #act: (world: TurnWorld) => Promise<string>;

  constructor(
    name: string,
    act: (world: TurnWorld) => Promise<string>,
    may: (world: TurnWorld) => boolean = () => true,
  ) {
    this.#name = name;
    this.#act = act;
    this.#may = may;
  }

  check(world: Readonly<TurnWorld>): boolean {
    return this.#may(world as TurnWorld);
  }

  async run(world: TurnWorld): Promise<void> {
    world.trace.push(`${this.#name} …`);
    const told = await this.#act(world);
    world.trace.splice(-1, 1, `${this.#name}: ${told}`);
    await world.check();
  }

  toString(): string {
    return this.#name;
  }

  [fc.toStringMethod](): string {
    return this.#name;
  }
}

const interrupt = { type: "user.interrupt" };
const INPUTS = {
  message: (world: TurnWorld) => [world.message()],
  messages: (world: TurnWorld) => [world.message(), world.message()],
  interrupt: () => [interrupt],
  "interrupt, message": (world: TurnWorld) => [interrupt, world.message()],
  "message, interrupt": (world: TurnWorld) => [world.message(), interrupt],
};

const of = <T>(from: readonly T[], n: number): T => from[n % from.length] as T;
const some = fc.nat({ max: 40 });
const likelyReply = fc.oneof(
  { weight: 2, arbitrary: fc.constant<ReplyKind>("end") },
  { weight: 5, arbitrary: fc.constantFrom<ReplyKind>("worker", "ask", "custom", "server", "mixed") },
  { weight: 3, arbitrary: fc.constantFrom(...REPLIES) },
);

const admit = fc
  .tuple(
    fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom<keyof typeof INPUTS>("message", "message", "messages") },
      {
        weight: 3,
        arbitrary: fc.constantFrom<keyof typeof INPUTS>("interrupt", "interrupt, message", "message, interrupt"),
      },
    ),
    fc.boolean(),
  )
  .map(
    ([kind, relayed]) =>
      new Do(`admit ${kind}${relayed ? "" : ", and crash"}`, async (world) =>
        String(await world.post(INPUTS[kind](world), relayed)),
      ),
  );

const answer = fc.tuple(some, fc.constantFrom("yes", "yes", "no"), fc.boolean(), fc.boolean()).map(
  ([n, word, twice, relayed]) =>
    new Do(`answer ${n} ${word}${twice ? " twice" : ""}${relayed ? "" : ", and crash"}`, async (world) => {
      const open = await world.openActions();
      if (open.length === 0) return "nobody asks";
      const { eventId, need, owner } = of(open, n);
      const event = need === "result" ? result(eventId, owner) : word === "yes" ? allow(eventId) : deny(eventId);
      const first = await world.post([event], relayed);
      const again = twice ? `, ${await world.post([event], relayed)}` : "";
      return `${need} ${first}${again}`;
    }),
);

/** Answers everything that is open in one batch: the barrier is complete at once. */
const answerAll = fc.boolean().map(
  (relayed) =>
    new Do(`answer all${relayed ? "" : ", and crash"}`, async (world) => {
      const open = await world.openActions();
      const events = open.map(({ eventId, need, owner }) =>
        need === "result" ? result(eventId, owner) : allow(eventId),
      );
      return events.length === 0 ? "nobody asks" : String(await world.post(events, relayed));
    }),
);

/** The world goes on by one step: a state is run; where none can be, whatever it waits for happens. */
const run = fc
  .tuple(
    some,
    likelyReply,
    fc.constantFrom("at once", "at once", "at once", "at once", "slowly", "and dies"),
    fc.boolean(),
  )
  .map(
    ([n, reply, pace, breaks]) =>
      new Do(`go on ${n} (${reply}, ${pace}${breaks ? ", tools break" : ""})`, async (world) => {
        const { runnable, said, waiting } = world.executions;
        if (runnable.length > 0 && (world.flights.length === 0 || n % 2 === 0)) {
          const execution = of(runnable, n);
          const { state, name } = execution;
          Object.assign(world, { reply, toolBreaks: breaks });
          await world.during(name, pace, () => world.executions.run(world.product, execution));
          // Mostly it is missed for long enough.
          if (pace === "and dies" && n % 3 !== 0) await world.expireLeases();
          return `${state} of ${name}, then ${execution.state}`;
        }
        if (said.length > 0) {
          const [message] = said.splice(n % said.length, 1);
          message?.arrive();
          return `${message?.what} arrives`;
        }
        if (world.flights.length > 0) {
          await world.land(of(world.flights, n));
          return "the model answers";
        }
        const open = await world.openActions();
        if (open.length > 0) {
          const { eventId, need, owner } = of(open, n);
          return `${need} ${await world.post([need === "result" ? result(eventId, owner) : allow(eventId)], true)}`;
        }
        const backingOff = waiting.find(({ state }) => state === "Backoff");
        if (backingOff !== undefined) {
          await world.timeOut(backingOff);
          return "the provider's pause is over";
        }
        return `message ${await world.post([world.message()], true)}`;
      }),
  );

const repeat = fc.tuple(some, likelyReply).map(
  ([n, reply]) =>
    new Do(
      `repeat ${n} (${reply})`,
      async (world) => {
        const execution = of(world.executions.open, n);
        Object.assign(world, { reply, toolBreaks: false });
        await world.executions.repeat(world.product, execution);
        return `${execution.state} of ${execution.name}`;
      },
      (world) => world.executions.open.length > 0,
    ),
);

const late = fc.tuple(some, likelyReply).map(
  ([n, reply]) =>
    new Do(
      `late ${n} (${reply})`,
      async (world) => {
        Object.assign(world, { reply, toolBreaks: false });
        return world.executions.late(world.product, n);
      },
      (world) => world.executions.invocations.length > 0,
    ),
);

const land = some.map(
  (n) =>
    new Do(
      `the model answers ${n}`,
      async (world) => {
        const flight = of(world.flights, n);
        await world.land(flight);
        return flight.what;
      },
      (world) => world.flights.length > 0,
    ),
);

const arrive = fc.tuple(some, fc.constantFrom("once", "once", "once", "twice", "never")).map(
  ([n, times]) =>
    new Do(
      `what was said arrives ${times} ${n}`,
      async (world) => {
        const { said } = world.executions;
        const message = of(said, n);
        // Said twice, it stays on the way.
        if (times !== "twice") said.splice(said.indexOf(message), 1);
        if (times !== "never") message.arrive();
        return message.what;
      },
      (world) => world.executions.said.length > 0,
    ),
);

const line = fc.constantFrom("good", "good", "dead", "deaf").map(
  (state) =>
    new Do(`relay (line ${state})`, async (world) => {
      world.line = state as TurnWorld["line"];
      await world.relay();
      world.line = "good";
      return `${world.executions.said.length} on the way`;
    }),
);

const leases = fc.constant(new Do("leases run out", async (world) => String(await world.expireLeases())));

const timeOut = some.map(
  (n) =>
    new Do(
      `a wait is over ${n}`,
      async (world) => {
        const execution = of(world.executions.waiting, n);
        const { state } = execution;
        await world.timeOut(execution);
        return `${state} of ${execution.name}`;
      },
      (world) => world.executions.waiting.length > 0,
    ),
);

const lose = fc.tuple(some, fc.constantFrom("and is taken over", "unheard", "by rumour only", "by rumour only")).map(
  ([n, how]) =>
    new Do(
      `an execution fails ${n} ${how}`,
      async (world) => {
        const execution = of(world.executions.open, n);
        // Whether an execution lives is a hint; one that was taken over and lives after all is fenced.
        if (how !== "by rumour only") Object.assign(execution, { state: "failed", token: null });
        if (how !== "unheard") await executionLost(world.product, execution.ref);
        return execution.name;
      },
      (world) => world.executions.open.length > 0,
    ),
);

const plans = fc.array(
  fc.oneof(
    { weight: 15, arbitrary: run },
    { weight: 3, arbitrary: fc.oneof(admit, answer, arrive) },
    { weight: 3, arbitrary: fc.oneof(admit, answer, answerAll, land, arrive, line, leases, timeOut) },
    { weight: 2, arbitrary: fc.oneof(repeat, late) },
    { weight: 1, arbitrary: lose },
  ),
  { minLength: 30, maxLength: COMMANDS, size: "max" },
);

/** Interleavings that this test has found, each in its shortest form. */
async function inWorld(act: (world: TurnWorld) => Promise<void>): Promise<void> {
  const world = await TurnWorld.open(hand);
  try {
    await act(world);
    await world.comeToRest();
  } finally {
    await world.close();
  }
}

/** A message was sent and its execution started. */
async function started(world: TurnWorld) {
  await world.post([world.message()], true);
  for (const { arrive } of world.executions.said.splice(0)) arrive();
  const [execution] = world.executions.runnable;
  if (execution === undefined) throw new Error("No execution was started.");
  return execution;
}

test("found: the answer to a request of a segment that was lost comes after the next segment began", () =>
  inWorld(async (world) => {
    const execution = await started(world);
    await world.during(execution.name, "slowly", () => world.executions.run(world.product, execution));
    Object.assign(execution, { state: "failed" });
    await executionLost(world.product, execution.ref);
    for (const flight of [...world.flights]) await world.land(flight);
  }));

test("found: a doubled CallModel comes late, when its execution is about to wait for a result that has just been given", () =>
  inWorld(async (world) => {
    const execution = await started(world);
    world.reply = "custom";
    await world.executions.run(world.product, execution);
    await world.executions.run(world.product, execution);
    expect(execution.state).toBe("AwaitActions");
    const [{ eventId, owner } = { eventId: "", owner: "" }] = await world.openActions();
    await world.post([result(eventId, owner)], true);
    world.reply = "ask";
    await world.executions.late(world.product, 0);
    await world.executions.run(world.product, execution);
  }));

test("found: a doubled CallModel comes late, when the release of its execution was lost between commit and delivery", () =>
  inWorld(async (world) => {
    const execution = await started(world);
    world.reply = "custom";
    await world.executions.run(world.product, execution);
    await world.executions.run(world.product, execution);
    await world.executions.run(world.product, execution);
    expect(world.executions.waiting).toEqual([execution]);
    const [{ eventId, owner } = { eventId: "", owner: "" }] = await world.openActions();
    await world.post([result(eventId, owner)], false);
    await world.executions.late(world.product, 0);
  }));

test(`any interleaving of ${COMMANDS} commands keeps the turn rules, seed ${SEED}`, { timeout: 900_000 }, async () => {
  const since = performance.now();
  let done = 0;
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      const world = await TurnWorld.open(hand);
      try {
        await fc.asyncModelRun(() => ({ model: world, real: world }), plan);
        await world.comeToRest();
        done += world.trace.length;
      } finally {
        await world.close();
      }
    }),
    {
      numRuns: RUNS,
      seed: SEED,
      ...(PATH === undefined ? {} : { path: PATH }),
      endOnFailure: process.env["TURN_MODEL_SHRINK"] === undefined,
      interruptAfterTimeLimit: 600_000,
    },
  );
  console.log(`TURN_MODEL_SEED=${SEED}: ${RUNS} runs, ${done} commands in ${Math.round(performance.now() - since)} ms`);
  expect(done).toBeGreaterThan(RUNS);
});
