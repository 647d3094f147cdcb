import type { Log, LogFields } from "../shared/ports/log.ts";

type Level = "debug" | "info" | "warn" | "error";

/**
 * The embedded edition's log, on stderr so that stdout stays the greeting. `text` is a line for a person and leaves
 * debug out; `json` is one object a line for a machine.
 */
export function localLog(form: "text" | "json"): Log {
  const write = (level: Level, message: string, fields: LogFields = {}) => {
    const present = Object.entries(fields).filter(([, value]) => value !== undefined);
    if (form === "json") {
      process.stderr.write(
        `${JSON.stringify({ time: new Date().toISOString(), level, message, ...Object.fromEntries(present) })}\n`,
      );
    } else if (level !== "debug") {
      const details = present.map(([name, value]) => `${name}=${String(value)}`).join(" ");
      process.stderr.write(
        `${new Date().toISOString().slice(11, 19)} ${level.padEnd(5)} ${message}${details === "" ? "" : `  ${details}`}\n`,
      );
    }
  };
  return {
    debug: (message, fields) => write("debug", message, fields),
    info: (message, fields) => write("info", message, fields),
    warn: (message, fields) => write("warn", message, fields),
    error: (message, fields) => write("error", message, fields),
  };
}
