import { describe, expect, it } from "vitest";
import { isJsonObject, jsonField, jsonMembers } from "./json-text.ts";

describe("jsonMembers", () => {
  it("gives the exact place of each value of an object", () => {
    const text = ' { "b" : 1.0 , "a":[1,{"x":"}"}],"s":"a\\"b" } ';
    const found = jsonMembers(text).map(({ key, start, end }) => [key, text.slice(start, end)]);
    expect(found).toEqual([
      ["b", "1.0"],
      ["a", '[1,{"x":"}"}]'],
      ["s", '"a\\"b"'],
    ]);
  });

  it("gives the elements of an array without keys", () => {
    const text = '[-0e5, "a,b" ,[],{},null]';
    const found = jsonMembers(text).map(({ key, start, end }) => [key, text.slice(start, end)]);
    expect(found).toEqual([
      [null, "-0e5"],
      [null, '"a,b"'],
      [null, "[]"],
      [null, "{}"],
      [null, "null"],
    ]);
  });

  it.each(["{}", "[]", " [ ] ", '"text"', "12", "null"])("finds nothing inside %s", (text) => {
    expect(jsonMembers(text)).toEqual([]);
  });

  it("decodes keys, and tells an empty key from none", () => {
    expect(jsonMembers('{"":1,"\\u0061":2}').map(({ key }) => key)).toEqual(["", "a"]);
  });

  it("reads what is nested deeper than a call stack", () => {
    const deep = "[".repeat(200_000) + "]".repeat(200_000);
    expect(jsonField(`{"deep":${deep},"after":7}`, "after")).toBe("7");
  });
});

describe("jsonField", () => {
  it("takes the last of a doubled key", () => {
    expect(jsonField('{"a":1,"a":2}', "a")).toBe("2");
  });

  it("is undefined when the key is only found deeper or in a string", () => {
    expect(jsonField('{"b":{"a":1},"c":"\\"a\\":1"}', "a")).toBeUndefined();
  });
});

describe("isJsonObject", () => {
  it.each([
    ['{"a":1}', true],
    [" {} ", true],
    ["[]", false],
    ['"x"', false],
    ['{"a":', false],
    ["{} trailing", false],
    ["", false],
  ])("%s → %s", (text, expected) => {
    expect(isJsonObject(text)).toBe(expected);
  });
});
