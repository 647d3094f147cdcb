import { describe, expect, it } from "vitest";
import { bare, firstQuoted, splitClauses } from "./clauses.ts";

describe("splitClauses", () => {
  it.each([
    ["read package.json and run `node --version`", ["read package.json", "run `node --version`"]],
    ["read a.txt, then read b.txt and then list files", ["read a.txt", "read b.txt", "list files"]],
    ["Read a.md. Please run `ls`", ["Read a.md", "Please run `ls`"]],
    ["write hello and goodbye to notes.txt", ["write hello and goodbye to notes.txt"]],
    ['write "first; then read on" to a.txt', ['write "first; then read on" to a.txt']],
    ["run `make and read x`", ["run `make and read x`"]],
    ["in notes.txt, replace a with b", ["in notes.txt, replace a with b"]],
    ["read a.md\nrun `ls`", ["read a.md", "run `ls`"]],
    ["", []],
  ])("%s", (instruction, expected) => {
    expect(splitClauses(instruction)).toEqual(expected);
  });
});

describe("quotes", () => {
  it("gives what stands in the first of them", () => {
    expect(firstQuoted("run `ls` or `pwd`")).toBe("ls");
    expect(firstQuoted("don't run it")).toBeUndefined();
  });

  it.each([
    ["`a b`", "a b"],
    ['"a".', "a"],
    ["plain text!", "plain text"],
    ["`a` and `b`", "`a` and `b`"],
  ])("are taken off around the whole: %s → %s", (text, expected) => {
    expect(bare(text)).toBe(expected);
  });
});
