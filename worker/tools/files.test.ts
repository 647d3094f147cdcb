import { execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { noAbort, temporaryWorkspace } from "../testing/temporary.ts";
import { editTool } from "./edit.ts";
import { readTool } from "./read.ts";
import { writeTool } from "./write.ts";

async function files() {
  const { workspace, outside } = await temporaryWorkspace();
  const at = (name: string) => join(workspace.path, name);
  return {
    workspace,
    outside,
    at,
    put: (name: string, content: string | Buffer) => writeFile(at(name), content),
    read: (input: unknown) => readTool(workspace).run(input, noAbort),
    write: (input: unknown) => writeTool(workspace).run(input, noAbort),
    edit: (input: unknown) => editTool(workspace).run(input, noAbort),
  };
}

const error = (text: string) => ({ text, isError: true });
const ok = (text: string) => ({ text, isError: false });

describe("read", () => {
  it("reads a file by relative and by absolute path", async () => {
    const { put, read, at } = await files();
    await put("a.txt", "one\ntwo\n");
    expect(await read({ file_path: "a.txt" })).toEqual(ok("one\ntwo\n"));
    expect(await read({ file_path: at("a.txt") })).toEqual(ok("one\ntwo\n"));
  });

  it.each([
    [[1, 1], "one"],
    [[2, 3], "two\nthree"],
    [[2, -1], "two\nthree\n"],
    [[3, 0], "three\n"],
    [[0, 1], "one"],
    [[3, 2], ""],
    [[9, 12], ""],
  ])("gives lines %j", async (view_range, text) => {
    const { put, read } = await files();
    await put("a.txt", "one\ntwo\nthree\n");
    expect(await read({ file_path: "a.txt", view_range })).toEqual(ok(text));
  });

  it("refuses a whole file above 262,144 bytes and reads one of exactly that size", async () => {
    const { put, read } = await files();
    await put("big.txt", "x".repeat(262_145));
    await put("fits.txt", "x".repeat(262_144));
    expect(await read({ file_path: "big.txt" })).toEqual(
      error(
        "read: big.txt is 262145 bytes, exceeds 262144-byte limit. " +
          "Use the view_range parameter to read specific line ranges, e.g. view_range: [1, 500].",
      ),
    );
    expect((await read({ file_path: "fits.txt" })).text.length).toBe(262_144);
  });

  it("reads a range of a bigger file, across the pieces that it is read in", async () => {
    const { put, read } = await files();
    await put("big.txt", Array.from({ length: 100_000 }, (_, i) => `line ${i + 1}`).join("\n"));
    expect(await read({ file_path: "big.txt", view_range: [50_000, 50_001] })).toEqual(ok("line 50000\nline 50001"));
    expect(await read({ file_path: "big.txt", view_range: [99_999, -1] })).toEqual(ok("line 99999\nline 100000"));
  });

  it("caps the selection, and says when one line alone is too long", async () => {
    const { put, read } = await files();
    await put("big.txt", `${"x".repeat(300_000)}\nshort\n`);
    expect(await read({ file_path: "big.txt", view_range: [1, 2] })).toEqual(
      error(
        "read: view_range [1, 2] of big.txt exceeds 262144-byte limit. " +
          "Narrow the view_range to read a smaller portion.",
      ),
    );
    expect((await read({ file_path: "big.txt", view_range: [1, 1] })).text).toMatch(
      /^read: line 1 of big.txt alone exceeds 262144-byte limit\./,
    );
    expect(await read({ file_path: "big.txt", view_range: [2, 2] })).toEqual(ok("short"));
  });

  it("refuses what is not a regular file, without waiting on a pipe", async () => {
    const { read, at } = await files();
    await mkdir(at("dir"));
    execFileSync("mkfifo", [at("pipe")]);
    expect(await read({ file_path: "dir" })).toEqual(error("read: dir is not a regular file"));
    expect(await read({ file_path: "pipe" })).toEqual(error("read: pipe is not a regular file"));
  });

  it("follows a link that stays inside", async () => {
    const { put, read, at } = await files();
    await put("real.txt", "inside");
    await symlink("real.txt", at("link.txt"));
    expect(await read({ file_path: "link.txt" })).toEqual(ok("inside"));
  });

  it.each([
    [{}, "read: file_path is required"],
    [{ file_path: "" }, "read: file_path is required"],
    [{ file_path: 1 }, "read: file_path must be a string"],
    [{ file_path: "a", view_range: [1] }, "read: view_range must be [start_line, end_line]"],
    [{ file_path: "a", view_range: [1, 2, 3] }, "read: view_range must be [start_line, end_line]"],
    [{ file_path: "a", view_range: ["1", "2"] }, "read: view_range must be [start_line, end_line]"],
    [{ file_path: "missing.txt" }, "read: missing.txt: no such file or directory"],
    [{ file_path: "a\0b" }, "read: a\0b: i/o error (ERR_INVALID_ARG_VALUE)"],
  ])("answers %j with: %s", async (input, text) => {
    const { read } = await files();
    expect(await read(input)).toEqual(error(text));
  });
});

describe("write", () => {
  it("creates a file and its directories for the owner alone", async () => {
    const { write, at } = await files();
    expect(await write({ file_path: "a/b/new.txt", content: "grün" })).toEqual(ok("wrote 5 bytes to a/b/new.txt"));
    expect(await readFile(at("a/b/new.txt"), "utf8")).toBe("grün");
    expect((await stat(at("a/b/new.txt"))).mode & 0o777).toBe(0o600);
    expect((await stat(at("a"))).mode & 0o777).toBe(0o700);
    expect((await stat(at("a/b"))).mode & 0o777).toBe(0o700);
  });

  it("keeps the mode of a file that exists, replaces it whole and leaves nothing beside it", async () => {
    const { write, at, put } = await files();
    await put("run.sh", "old content that is longer");
    await chmod(at("run.sh"), 0o755);
    const before = (await stat(at("run.sh"))).ino;
    expect(await write({ file_path: "run.sh", content: "new" })).toEqual(ok("wrote 3 bytes to run.sh"));
    const after = await stat(at("run.sh"));
    expect(await readFile(at("run.sh"), "utf8")).toBe("new");
    expect(after.mode & 0o777).toBe(0o755);
    // A new inode: the content was renamed into place, not written over the old.
    expect(after.ino).not.toBe(before);
    expect(await readdir(at("."))).toEqual(["run.sh"]);
  });

  it("writes an empty file", async () => {
    const { write, at } = await files();
    expect(await write({ file_path: "empty", content: "" })).toEqual(ok("wrote 0 bytes to empty"));
    expect(await readFile(at("empty"), "utf8")).toBe("");
  });

  it("cleans up when it fails", async () => {
    const { write, at } = await files();
    await mkdir(at("dir"));
    expect(await write({ file_path: "dir", content: "x" })).toEqual(error("write: dir: is a directory"));
    expect(await readdir(at("."))).toEqual(["dir"]);
  });

  it.each([
    [{ content: "x" }, "write: file_path is required"],
    [{ file_path: "a" }, "write: content is required"],
    [{ file_path: "a", content: 1 }, "write: content must be a string"],
  ])("answers %j with: %s", async (input, text) => {
    const { write } = await files();
    expect(await write(input)).toEqual(error(text));
  });
});

describe("edit", () => {
  it("replaces the one occurrence, literally", async () => {
    const { edit, put, at } = await files();
    await put("a.txt", "price: 5\n");
    const result = await edit({ file_path: "a.txt", old_string: "5", new_string: "$& and $1" });
    expect(result).toEqual(ok("edited a.txt (1 replacement(s))"));
    expect(await readFile(at("a.txt"), "utf8")).toBe("price: $& and $1\n");
  });

  it("replaces all when asked", async () => {
    const { edit, put, at } = await files();
    await put("a.txt", "x x x");
    const result = await edit({ file_path: "a.txt", old_string: "x", new_string: "", replace_all: true });
    expect(result).toEqual(ok("edited a.txt (3 replacement(s))"));
    expect(await readFile(at("a.txt"), "utf8")).toBe("  ");
  });

  it("refuses an ambiguous or missing text and changes nothing", async () => {
    const { edit, put, at } = await files();
    await put("a.txt", "x x");
    expect(await edit({ file_path: "a.txt", old_string: "x", new_string: "y" })).toEqual(
      error("edit: old_string appears 2 times in a.txt (must be unique)"),
    );
    expect(await edit({ file_path: "a.txt", old_string: "z", new_string: "y" })).toEqual(
      error("edit: old_string not found in a.txt"),
    );
    expect(await readFile(at("a.txt"), "utf8")).toBe("x x");
  });

  it("keeps a byte order mark and the file's mode", async () => {
    const { edit, put, at } = await files();
    await put("a.txt", "\ufeffold");
    await chmod(at("a.txt"), 0o644);
    await edit({ file_path: "a.txt", old_string: "old", new_string: "new" });
    expect(await readFile(at("a.txt"), "utf8")).toBe("\ufeffnew");
    expect((await stat(at("a.txt"))).mode & 0o777).toBe(0o644);
  });

  it("refuses a file that is too big or not UTF-8", async () => {
    const { edit, put, at } = await files();
    await put("big.txt", "x".repeat(262_145));
    await put("latin1.txt", Buffer.from([0x61, 0xfc, 0x62]));
    expect(await edit({ file_path: "big.txt", old_string: "x", new_string: "y" })).toEqual(
      error(
        "edit: big.txt is 262145 bytes, exceeds 262144-byte limit. " +
          "The edit tool loads the whole file and cannot modify a file this large.",
      ),
    );
    expect(await edit({ file_path: "latin1.txt", old_string: "a", new_string: "y" })).toEqual(
      error("edit: latin1.txt is not valid UTF-8"),
    );
    expect(await readFile(at("latin1.txt"))).toEqual(Buffer.from([0x61, 0xfc, 0x62]));
  });

  it.each([
    [{ old_string: "a", new_string: "b" }, "edit: file_path is required"],
    [{ file_path: "a", new_string: "b" }, "edit: old_string is required"],
    [{ file_path: "a", old_string: "", new_string: "b" }, "edit: old_string is required"],
    [{ file_path: "a", old_string: "a" }, "edit: new_string is required"],
    [{ file_path: "a", old_string: "a", new_string: "b", replace_all: 1 }, "edit: replace_all must be true or false"],
    [{ file_path: "no", old_string: "a", new_string: "b" }, "edit: no: no such file or directory"],
  ])("answers %j with: %s", async (input, text) => {
    const { edit } = await files();
    expect(await edit(input)).toEqual(error(text));
  });
});
