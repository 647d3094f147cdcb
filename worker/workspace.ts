import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { confine } from "./confinement.ts";

/** The directory in which one session's tools work: `<workspace root>/<session id>`. It outlives the activation. */
export class Workspace {
  /** Free of links. */
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async open(workspaceRoot: string, sessionId: string): Promise<Workspace> {
    const path = join(workspaceRoot, directoryName(sessionId));
    await mkdir(path, { recursive: true, mode: 0o700 });
    return Workspace.at(path);
  }

  /** A folder that is there. */
  static async at(path: string): Promise<Workspace> {
    return new Workspace(await realpath(path));
  }

  /** The real path of what a tool was asked for; throws `OutsideWorkspace`. */
  resolve(given: string): Promise<string> {
    return confine(this.path, given);
  }
}

/** The id comes from the server and becomes a path: anything but an id is refused. */
export function directoryName(sessionId: string): string {
  if (!/^[A-Za-z0-9_-]{1,128}$/.test(sessionId)) throw new Error("the session id is not fit for a directory name");
  return sessionId;
}
