/**
 * The program that launchers start inside a sandbox: `node file-tools-main.ts <folder>`. It answers requests on standard
 * input, side by side, until that closes. Whatever it could be tricked into touching, the session's own commands can
 * touch as well: a path component swapped for a link while it works gains nothing.
 */
import { createInterface } from "node:readline";
import { Workspace } from "../workspace.ts";
import { localFileTools } from "./file-tools.ts";
import { type FileToolsReply, FileToolsRequest } from "./file-tools-protocol.ts";

const env = Object.fromEntries(
  Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
);
const tools = localFileTools(await Workspace.at(process.argv[2] ?? ""), env);
const running = new Map<number, AbortController>();

function reply(message: FileToolsReply): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
lines.on("line", (line) => {
  const request = FileToolsRequest.parse(JSON.parse(line));
  if ("cancel" in request) {
    running.get(request.cancel)?.abort();
    return;
  }
  const abort = new AbortController();
  running.set(request.id, abort);
  void tools.run(request.tool, request.input, abort.signal).then((result) => {
    running.delete(request.id);
    reply({ id: request.id, ...result });
  });
});
lines.once("close", () => process.exit(0));
