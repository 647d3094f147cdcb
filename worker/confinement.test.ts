import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { confine } from "./confinement.ts";
import { noAbort, temporaryDirectory, temporaryWorkspace } from "./testing/temporary.ts";
import { readTool } from "./tools/read.ts";
import { writeTool } from "./tools/write.ts";
import { Workspace } from "./workspace.ts";

async function place() {
  const { workspace, outside } = await temporaryWorkspace();
  await writeFile(join(outside, "secret.txt"), "secret");
  await mkdir(join(outside, "sesn_12"));
  return { root: workspace.path, workspace, outside };
}

describe("paths inside", () => {
  it.each([
    ["a.txt", "a.txt"],
    ["a/../b.txt", "b.txt"],
    ["./new/deep/file", "new/deep/file"],
    ["..hidden", "..hidden"],
  ])("%s is %s", async (given, expected) => {
    const { root } = await place();
    expect(await confine(root, given)).toBe(join(root, expected));
  });

  it("takes an absolute path below the root, and the root itself", async () => {
    const { root } = await place();
    expect(await confine(root, join(root, "x"))).toBe(join(root, "x"));
    expect(await confine(root, root)).toBe(root);
  });

  it("resolves links that stay inside, dangling ones too", async () => {
    const { root } = await place();
    await mkdir(join(root, "real"));
    await symlink("real", join(root, "link"));
    await symlink("real/later.txt", join(root, "dangling"));
    expect(await confine(root, "link/file")).toBe(join(root, "real/file"));
    expect(await confine(root, "dangling")).toBe(join(root, "real/later.txt"));
  });

  it("works when the root itself is reached through a link", async () => {
    const { root, outside } = await place();
    await symlink(root, join(outside, "alias"));
    expect(await confine(join(outside, "alias"), "x")).toBe(join(root, "x"));
  });
});

describe("paths outside", () => {
  it.each([["../secret.txt"], ["/etc/passwd"], ["a/../../secret.txt"], ["../sesn_12/x"], [".."], ["/"]])(
    "%s is refused",
    async (given) => {
      const { root } = await place();
      await expect(confine(root, given)).rejects.toThrow(
        `path ${JSON.stringify(given)} is outside the session's working directory`,
      );
    },
  );

  it("refuses a link to a file outside, relative or absolute", async () => {
    const { root, outside } = await place();
    await symlink(join(outside, "secret.txt"), join(root, "absolute"));
    await symlink("../secret.txt", join(root, "relative"));
    await expect(confine(root, "absolute")).rejects.toThrow("is outside");
    await expect(confine(root, "relative")).rejects.toThrow("is outside");
  });

  it("refuses a directory that is a link to outside, for what exists and what does not", async () => {
    const { root, outside } = await place();
    await symlink(outside, join(root, "up"));
    await expect(confine(root, "up/secret.txt")).rejects.toThrow("is outside");
    await expect(confine(root, "up/new/file.txt")).rejects.toThrow("is outside");
  });

  it("refuses a dangling link to outside and a chain of links", async () => {
    const { root, outside } = await place();
    await symlink(join(outside, "not-yet"), join(root, "dangling"));
    await symlink("dangling", join(root, "first"));
    await expect(confine(root, "dangling")).rejects.toThrow("is outside");
    await expect(confine(root, "first")).rejects.toThrow("is outside");
  });

  it("refuses a loop without naming the host's path", async () => {
    const { root, workspace } = await place();
    await symlink("loop", join(root, "loop"));
    const { text } = await readTool(workspace).run({ file_path: "loop" }, noAbort);
    expect(text).toBe("read: loop: too many levels of symbolic links");
  });
});

describe("tools", () => {
  it("do not read through a link to outside, and do not say where it leads", async () => {
    const { root, outside, workspace } = await place();
    await symlink(join(outside, "secret.txt"), join(root, "link"));
    const result = await readTool(workspace).run({ file_path: "link" }, noAbort);
    expect(result).toEqual({ text: `read: path "link" is outside the session's working directory`, isError: true });
    expect(result.text).not.toContain(outside);
  });

  it("do not write through a linked parent or a dangling link", async () => {
    const { root, outside, workspace } = await place();
    await symlink(outside, join(root, "up"));
    await symlink(join(outside, "planted.txt"), join(root, "dangling"));
    for (const file_path of ["up/planted.txt", "up/secret.txt", "dangling"]) {
      const { isError } = await writeTool(workspace).run({ file_path, content: "x" }, noAbort);
      expect(isError).toBe(true);
    }
    await expect(readFile(join(outside, "planted.txt"))).rejects.toThrow("ENOENT");
    expect(await readFile(join(outside, "secret.txt"), "utf8")).toBe("secret");
  });
});

describe("the workspace's own directory", () => {
  it.each([["../x"], ["a/b"], [""], [".journal"], ["a\0b"]])("refuses the session id %j", async (id) => {
    const root = await temporaryDirectory();
    await expect(Workspace.open(root, id)).rejects.toThrow("the session id is not fit for a directory name");
  });
});
