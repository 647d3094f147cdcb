import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Environment, LaunchRequest } from "./launcher.ts";

/** Where the program of the file tools lies inside a sandbox of its own; commands never see it. */
const INSIDE = "/opt/mango";
const WORKER = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const ZOD = dirname(fileURLToPath(import.meta.resolve("zod/package.json")));

/** What the program needs to see, read-only: paths on the host and inside. */
export const FILE_TOOLS_MOUNTS: readonly { readonly host: string; readonly inside: string }[] = [
  { host: WORKER, inside: join(INSIDE, "worker") },
  { host: join(dirname(WORKER), "package.json"), inside: join(INSIDE, "package.json") },
  { host: ZOD, inside: join(INSIDE, "node_modules", "zod") },
];
export const NODE_INSIDE = join(INSIDE, "node");

/** The program, run by the Node at `node`, on the folder. */
export function fileToolsRequest(node: string, folder: string, env: Environment): LaunchRequest {
  return {
    program: node,
    args: [
      "--disable-warning=ExperimentalWarning",
      "--max-semi-space-size=2",
      join(INSIDE, "worker", "tools", "file-tools-main.ts"),
      folder,
    ],
    env,
  };
}
