import { closeSync, readFileSync } from "node:fs";

const KEY = "MANGO_ENVIRONMENT_KEY";
const KEY_FD = "MANGO_ENVIRONMENT_KEY_FD";

/**
 * The key from the environment, or null. A process's first environment stays readable in /proc for as long as it
 * lives, whatever it deletes later, and a tool runs as the same user. So the worker replaces itself (same process id)
 * by a copy that gets the key through a pipe on descriptor 3, and this returns only in that copy.
 */
export function takeEnvironmentKey(): string | null {
  const descriptor = process.env[KEY_FD];
  if (descriptor !== undefined) {
    delete process.env[KEY_FD];
    return readKey(Number(descriptor));
  }
  const key = process.env[KEY];
  if (key === undefined || key === "") return null;
  replaceProcess();
  // Only where a process cannot replace itself.
  delete process.env[KEY];
  return key;
}

function readKey(descriptor: number): string | null {
  const key = readFileSync(descriptor, "utf8").trim();
  closeSync(descriptor);
  return key === "" ? null : key;
}

function replaceProcess(): void {
  if (process.execve === undefined || process.platform === "win32") return;
  const script = `key=$${KEY}; unset ${KEY}; ${KEY_FD}=3 exec "$@" 3<<<"$key"`;
  const self = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve("/bin/bash", ["bash", "--noprofile", "--norc", "-c", script, "mango-worker", ...self], process.env);
}
