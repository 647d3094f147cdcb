import { expect, it } from "vitest";
import { plausibleInput } from "./plausible-input.ts";

it("fills every required field by its schema", () => {
  const schema = {
    type: "object",
    required: ["text", "count", "flag", "list", "kind", "zone", "place", "unknown"],
    properties: {
      text: { type: "string" },
      count: { type: ["integer", "null"] },
      flag: { type: "boolean" },
      list: { type: "array" },
      kind: { enum: ["b", "a"] },
      zone: { type: "string", default: "UTC" },
      place: { type: "object", required: ["lat"], properties: { lat: { type: "number" } } },
      optional: { type: "string" },
    },
  };
  expect(plausibleInput("call it", schema)).toEqual({
    text: "example",
    count: 1,
    flag: true,
    list: [],
    kind: "b",
    zone: "UTC",
    place: { lat: 1 },
    unknown: "example",
  });
});

it("takes the object that the user gave", () => {
  expect(plausibleInput('call it with `not json` `{"a":[1]}`', { required: ["b"] })).toEqual({ a: [1] });
});

it("is an empty object without a schema", () => {
  expect(plausibleInput("call it with `null` and `[1]`", {})).toEqual({});
});
