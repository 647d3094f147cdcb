import { styleText } from "node:util";
import type { Log, LogFields } from "../shared/ports/log.ts";

type Level = "debug" | "info" | "warn" | "error";
type Write = (line: string) => void;

const colour = { debug: "gray", info: "green", warn: "yellow", error: "red" } as const;

/** For people: `12:03:04 info  claimed work  work=work_1 session=sesn_1`. */
export function textLog(write: Write, options: { readonly debug: boolean; readonly colours: boolean }): Log {
  const paint = (style: "gray" | "green" | "yellow" | "red", text: string) =>
    options.colours ? styleText(style, text, { validateStream: false }) : text;
  return makeLog(options.debug, (level, message, fields) => {
    const time = new Date().toISOString().slice(11, 19);
    const detail = Object.entries(fields)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${plain(value)}`)
      .join(" ");
    const head = `${paint("gray", time)} ${paint(colour[level], level.padEnd(5))} ${message}`;
    write(detail === "" ? `${head}\n` : `${head}  ${paint("gray", detail)}\n`);
  });
}

/** For machines: one JSON object a line. */
export function jsonLog(write: Write, options: { readonly debug: boolean }): Log {
  return makeLog(options.debug, (level, message, fields) => {
    write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`);
  });
}

function makeLog(debug: boolean, emit: (level: Level, message: string, fields: LogFields) => void): Log {
  return {
    debug: (message, fields = {}) => {
      if (debug) emit("debug", message, fields);
    },
    info: (message, fields = {}) => emit("info", message, fields),
    warn: (message, fields = {}) => emit("warn", message, fields),
    error: (message, fields = {}) => emit("error", message, fields),
  };
}

function plain(value: LogFields[string]): string {
  const text = String(value);
  return /[\s"=]/.test(text) ? JSON.stringify(text) : text;
}
