import { expect, it } from "vitest";
import { OneAtATime } from "./one-at-a-time.ts";

it("starts a task when the one before it has ended, however that went, and leaves other names alone", async () => {
  const turns = new OneAtATime();
  const order: string[] = [];
  const first = Promise.withResolvers<void>();
  const failing = turns.run("a", async () => {
    order.push("a1");
    await first.promise;
    order.push("a1 ends");
    throw new Error("a1 failed");
  });
  const second = turns.run("a", async () => {
    order.push("a2");
    return 2;
  });
  await turns.run("b", async () => order.push("b1"));
  expect(order).toEqual(["a1", "b1"]);
  first.resolve();
  await expect(failing).rejects.toThrow("a1 failed");
  expect(await second).toBe(2);
  expect(order).toEqual(["a1", "b1", "a1 ends", "a2"]);
});
