import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Environment, LaunchRequest } from "./launcher.ts";

/** Where the program of the file tools lies inside a sandbox of its own; commands never see it. */
const INSIDE = "/opt/mango";
export const NODE_INSIDE = join(INSIDE, "node");

interface FileToolsPlace {
  /** What the program needs to see, read-only: paths on the host and inside. */
  readonly mounts: readonly { readonly host: string; readonly inside: string }[];
  readonly program: string;
}

/** The worker's folder as it is in the project, or the folder that `infra/bundles.ts` has built. */
function findPlace(): FileToolsPlace {
  const here = fileURLToPath(new URL(".", import.meta.url)).replace(/\/$/, "");
  const worker = join(INSIDE, "worker");
  if (!import.meta.url.endsWith(".ts")) {
    return { mounts: [{ host: here, inside: worker }], program: join(worker, "file-tools.js") };
  }
  const source = dirname(here);
  return {
    mounts: [
      { host: source, inside: worker },
      { host: join(dirname(source), "package.json"), inside: join(INSIDE, "package.json") },
      {
        host: dirname(fileURLToPath(import.meta.resolve("zod/package.json"))),
        inside: join(INSIDE, "node_modules", "zod"),
      },
    ],
    program: join(worker, "tools", "file-tools-main.ts"),
  };
}

const PLACE = findPlace();
export const FILE_TOOLS_MOUNTS = PLACE.mounts;

/** The program, run by the Node at `node`, on the folder. */
export function fileToolsRequest(node: string, folder: string, env: Environment): LaunchRequest {
  return {
    program: node,
    args: ["--disable-warning=ExperimentalWarning", "--max-semi-space-size=2", PLACE.program, folder],
    env,
  };
}
