import { chmod, mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { noAbort, temporaryDirectory, temporaryWorkspace } from "../testing/temporary.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { StopReason } from "./tool.ts";

async function search(path = "") {
  const { workspace, outside } = await temporaryWorkspace();
  const at = (name: string) => join(workspace.path, name);
  const grep = grepTool({ workspace, env: { PATH: path } });
  return {
    outside,
    at,
    put: async (name: string, content = "", modified = 1_000) => {
      await mkdir(dirname(at(name)), { recursive: true });
      await writeFile(at(name), content);
      await utimes(at(name), modified, modified);
    },
    glob: (input: unknown) => globTool(workspace).run(input, noAbort),
    grep: (input: unknown, signal = noAbort) => grep.run(input, signal),
  };
}

const error = (text: string) => ({ text, isError: true });

describe("glob", () => {
  it("lists regular files by absolute path, newest first", async () => {
    const { put, glob, at } = await search();
    await put("old.ts", "", 1_000);
    await put("src/new.ts", "", 3_000);
    await put("src/deep/middle.ts", "", 2_000);
    await put("src/other.txt", "", 4_000);
    await mkdir(at("dir.ts"));
    const { text, isError } = await glob({ pattern: "**/*.ts" });
    expect(isError).toBe(false);
    expect(text.split("\n")).toEqual([at("src/new.ts"), at("src/deep/middle.ts"), at("old.ts")]);
  });

  it("searches below a given path", async () => {
    const { put, glob, at } = await search();
    await put("a/x.ts");
    await put("b/x.ts");
    expect((await glob({ pattern: "*.ts", path: "a" })).text).toBe(at("a/x.ts"));
    expect((await glob({ pattern: "*.ts", path: at("b") })).text).toBe(at("b/x.ts"));
  });

  it("leaves out .git and node_modules", async () => {
    const { put, glob } = await search();
    await put(".git/config.ts");
    await put("node_modules/x/index.ts");
    expect(await glob({ pattern: "**/*.ts" })).toEqual({ text: "no matches", isError: false });
  });

  it("gives 200 results at most, the newest", async () => {
    const { put, glob, at } = await search();
    for (let i = 0; i < 205; i += 1) await put(`${i}.txt`, "", 1_000 + i);
    const lines = (await glob({ pattern: "*.txt" })).text.split("\n");
    expect(lines.length).toBe(200);
    expect(lines[0]).toBe(at("204.txt"));
    expect(lines[199]).toBe(at("5.txt"));
  });

  it("does not follow a link out of the workspace, named or not", async () => {
    const { outside, at, glob } = await search();
    await mkdir(join(outside, "private"));
    await writeFile(join(outside, "private", "key.txt"), "secret");
    await symlink(join(outside, "private"), at("link"));
    await symlink(join(outside, "private", "key.txt"), at("file.txt"));
    for (const pattern of ["link/*.txt", "**/*.txt", "*.txt", "{link,x}/key.txt"]) {
      expect(await glob({ pattern })).toEqual({ text: "no matches", isError: false });
    }
  });

  it.each([
    [{}, "glob: pattern is required"],
    [{ pattern: "/etc/*" }, "glob: absolute pattern not permitted; pass a relative pattern (and optionally path)"],
    [{ pattern: "../*" }, 'glob: ".." is not permitted in the pattern'],
    [{ pattern: "a/{..,b}/*" }, 'glob: ".." is not permitted in the pattern'],
    [{ pattern: "*", path: ".." }, `glob: path ".." is outside the session's working directory`],
    [{ pattern: "*", path: "missing" }, "glob: missing: no such file or directory"],
  ])("answers %j with: %s", async (input, text) => {
    const { glob } = await search();
    expect(await glob(input)).toEqual(error(text));
  });
});

describe("grep without ripgrep", () => {
  it("gives path, line number and line", async () => {
    const { put, grep, at } = await search();
    await put("a.txt", "apple\nmango\r\nfig\nmangosteen");
    expect(await grep({ pattern: "^mango" })).toEqual({
      text: `${at("a.txt")}:2:mango\n${at("a.txt")}:4:mangosteen`,
      isError: false,
    });
  });

  it("searches one file or one directory", async () => {
    const { put, grep, at } = await search();
    await put("a/x.txt", "mango");
    await put("b/x.txt", "mango");
    expect((await grep({ pattern: "mango", path: "a" })).text).toBe(`${at("a/x.txt")}:1:mango`);
    expect((await grep({ pattern: "mango", path: "b/x.txt" })).text).toBe(`${at("b/x.txt")}:1:mango`);
  });

  it("skips binary files, lines above 2,000 characters, links, .git and node_modules", async () => {
    const { put, grep, at, outside } = await search();
    await put("binary", "mango\0");
    await put("long.txt", `${"x".repeat(1_996)}mango\nshort mango\n${"y".repeat(200_000)}mango`);
    await put("fits.txt", `${"x".repeat(1_995)}mango`);
    await put(".git/x", "mango");
    await put("node_modules/x", "mango");
    await writeFile(join(outside, "secret.txt"), "mango");
    await symlink(join(outside, "secret.txt"), at("link.txt"));
    const lines = (await grep({ pattern: "mango" })).text.split("\n").toSorted();
    expect(lines).toEqual([`${at("fits.txt")}:1:${"x".repeat(1_995)}mango`, `${at("long.txt")}:2:short mango`]);
  });

  it("cuts the output at 102,400 characters", async () => {
    const { put, grep } = await search();
    await put("a.txt", "mango\n".repeat(50_000));
    const { text } = await grep({ pattern: "mango" });
    expect(text.endsWith("\n[output truncated at 102400 bytes]")).toBe(true);
    expect(text.length).toBe(102_400 + "\n[output truncated at 102400 bytes]".length);
  });

  it("can be stopped while an expression backtracks", async () => {
    const { put, grep } = await search();
    await put("a.txt", `${"a".repeat(60)}!`);
    const abort = new AbortController();
    const result = grep({ pattern: "^(a+)+$" }, abort.signal);
    setTimeout(() => abort.abort(new StopReason("the call was closed")), 200);
    expect(await result).toEqual(error("grep: the call was closed"));
  });

  it.each([
    [{}, "grep: pattern is required"],
    [{ pattern: "x", path: "../other" }, `grep: path "../other" is outside the session's working directory`],
    [{ pattern: "x", path: "missing" }, "grep: missing: no such file or directory"],
  ])("answers %j with: %s", async (input, text) => {
    const { grep } = await search();
    expect(await grep(input)).toEqual(error(text));
  });

  it("names a broken expression and finds nothing politely", async () => {
    const { put, grep } = await search();
    await put("a.txt", "apple");
    expect((await grep({ pattern: "(" })).text).toMatch(/^grep: invalid regex: /);
    expect(await grep({ pattern: "mango" })).toEqual({ text: "no matches", isError: false });
  });
});

describe("grep with ripgrep", () => {
  /** Stands in for rg: the search itself is ripgrep's business; how it is called and read is ours. */
  async function fakeRipgrep(script: string) {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, "rg"), `#!/bin/bash\n${script}\n`);
    await chmod(join(directory, "rg"), 0o755);
    return `${directory}:${process.env["PATH"]}`;
  }

  it("calls it with the agreed arguments, in the workspace", async () => {
    const { grep, at } = await search(await fakeRipgrep('printf "%s\\n" "$@"'));
    const { text } = await grep({ pattern: "-x mango" });
    expect(text).toBe(`--no-config\n-n\n--no-heading\n-e\n-x mango\n--\n${at("").replace(/\/$/, "")}`);
  });

  it("reads exit code 1 as no matches and 2 as a failure with its complaint", async () => {
    const none = await search(await fakeRipgrep("exit 1"));
    expect(await none.grep({ pattern: "x" })).toEqual({ text: "no matches", isError: false });
    const broken = await search(await fakeRipgrep("echo 'bad pattern' >&2; exit 2"));
    expect(await broken.grep({ pattern: "x" })).toEqual(error("grep: rg failed: bad pattern"));
  });

  it("cuts the output at 102,400 characters and ends the program", async () => {
    const { grep } = await search(await fakeRipgrep("yes mango"));
    const { text } = await grep({ pattern: "mango" });
    expect(text.endsWith("\n[output truncated at 102400 bytes]")).toBe(true);
  });

  it("never runs one that lies in the workspace", async () => {
    const { workspace } = await temporaryWorkspace();
    const inside = workspace.path;
    await writeFile(join(inside, "rg"), "#!/bin/bash\necho planted\n");
    await chmod(join(inside, "rg"), 0o755);
    await writeFile(join(inside, "a.txt"), "mango");
    const tool = grepTool({ workspace, env: { PATH: inside } });
    expect((await tool.run({ pattern: "mango" }, noAbort)).text).toBe(`${join(inside, "a.txt")}:1:mango`);
  });
});
