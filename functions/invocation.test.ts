import { expect, test, vi } from "vitest";
import { TurnBusyError } from "../shared/turns/turn-errors.ts";

const settle = vi.fn(() => Promise.resolve());
vi.doMock("./product.ts", () => ({ settle, product: () => ({ quiet: null }) }));
const { invocation } = await import("./invocation.ts");

const CONTEXT = { functionName: "gate-tools", awsRequestId: "1", getRemainingTimeInMillis: () => 1000 } as never;

test("what was published without waiting is waited for before the environment is frozen", async () => {
  let sent = false;
  settle.mockImplementationOnce(async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    sent = true;
  });

  const answer = await invocation(async (input: number) => input + 1)(1, CONTEXT);

  expect([answer, sent]).toEqual([2, true]);
});

test.each([
  [
    "the database's words",
    Object.assign(new Error("Key (text)=(Hello) exists"), { name: "error", code: "23505" }),
    "error",
  ],
  ["a class name that the state's Retry waits for", new TurnBusyError("turn_1"), "TurnBusyError"],
  ["no error at all", "Hello", "unknown"],
])("out of a failure goes its name and nothing else: %s", async (_, error, name) => {
  const before = settle.mock.calls.length;
  const failed = await invocation(async () => Promise.reject(error))({}, CONTEXT).catch((it: unknown) => it);

  const message = "The function's log says more.";
  // Without a stack to split, a runtime client loses the name.
  expect(failed).toMatchObject({ name, message, stack: `${name}: ${message}` });
  expect(
    Object.values(Object.getOwnPropertyDescriptors(failed))
      .map(({ value }) => String(value))
      .join(),
  ).not.toMatch(/Hello|turn_1/);
  expect(settle.mock.calls.length).toBe(before + 1);
});
