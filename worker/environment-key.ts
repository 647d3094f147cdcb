import { closeSync, readFileSync } from "node:fs";

const KEY = "MANGO_ENVIRONMENT_KEY";
const KEY_FD = "MANGO_ENVIRONMENT_KEY_FD";
const KEY_FLAG = "--environment-key";
const FILE_FLAG = "--environment-key-file";

/** The file named by `--environment-key-file` cannot be read. */
export class NoKeyFile extends Error {}

/**
 * The key, from wherever it was given (argument, file, environment), or null.
 *
 * A process's first environment and arguments stay readable in /proc for as long as it lives, whatever it deletes
 * later. So a worker that was given its key there replaces itself (same process id) by a copy that gets the key through
 * a pipe on descriptor 3, and this returns only in that copy.
 */
export function takeEnvironmentKey(): string | null {
  const descriptor = process.env[KEY_FD];
  if (descriptor !== undefined) {
    delete process.env[KEY_FD];
    return readKey(Number(descriptor));
  }
  const { key, rest } = keyArgument(process.argv.slice(2));
  const given = key ?? process.env[KEY];
  if (given === undefined || given === "") return keyFromFile(rest);
  replaceProcess(given, rest);
  // Only where a process cannot replace itself.
  delete process.env[KEY];
  process.argv.splice(2, process.argv.length, ...rest);
  return given;
}

/** The value of `--environment-key` in either of its forms, and the arguments without it. */
export function keyArgument(args: readonly string[]): { readonly key?: string; readonly rest: readonly string[] } {
  const at = args.findIndex((argument) => argument === KEY_FLAG || argument.startsWith(`${KEY_FLAG}=`));
  const flag = args[at];
  if (flag === undefined) return { rest: args };
  if (flag !== KEY_FLAG) return { key: flag.slice(KEY_FLAG.length + 1), rest: args.toSpliced(at, 1) };
  const value = args[at + 1];
  return value === undefined ? { rest: args } : { key: value, rest: args.toSpliced(at, 2) };
}

function keyFromFile(args: readonly string[]): string | null {
  const at = args.findIndex((argument) => argument === FILE_FLAG || argument.startsWith(`${FILE_FLAG}=`));
  const flag = args[at];
  const path = flag === FILE_FLAG ? args[at + 1] : flag?.slice(FILE_FLAG.length + 1);
  if (path === undefined) return null;
  try {
    return readFileSync(path, "utf8").trim() || null;
  } catch (error) {
    throw new NoKeyFile(`the key file cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function readKey(descriptor: number): string | null {
  const key = readFileSync(descriptor, "utf8").trim();
  closeSync(descriptor);
  return key === "" ? null : key;
}

function replaceProcess(key: string, args: readonly string[]): void {
  if (process.execve === undefined || process.platform === "win32") return;
  const script = `key=$${KEY}; unset ${KEY}; ${KEY_FD}=3 exec "$@" 3<<<"$key"`;
  const self = [process.execPath, ...process.execArgv, process.argv[1] ?? "", ...args];
  process.execve("/bin/bash", ["bash", "--noprofile", "--norc", "-c", script, "mango-worker", ...self], {
    ...process.env,
    [KEY]: key,
  });
}
