import { expect, test } from "vitest";
import { derivedId, newId, secretDigest } from "./ids.ts";

test("ids made later sort later, and have their prefix and 26 characters without look-alikes", async () => {
  const first = newId("sesn");
  await new Promise((resolve) => setTimeout(resolve, 2));
  const second = newId("sesn");
  expect(first).toMatch(/^sesn_[0-9a-hjkmnp-tv-z]{26}$/);
  expect(second > first).toBe(true);
});

test("derived ids depend on every part and on where one part ends and the next begins", () => {
  const ids = [
    derivedId("sevt", "a", "bc"),
    derivedId("sevt", "ab", "c"),
    derivedId("sevt", "a", "b", "c"),
    derivedId("sevt", "a", 1),
    derivedId("sevt", "a", "1"),
  ];
  expect(new Set(ids).size).toBe(5);
  expect(derivedId("sevt", "a", "bc")).toBe(ids[0]);
});

test("a secret is stored as its SHA-256", () => {
  expect(secretDigest("abc").toString("hex")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
