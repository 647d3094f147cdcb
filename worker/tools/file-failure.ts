import { OutsideWorkspace } from "../confinement.ts";
import { ToolFailure } from "./tool.ts";

/** The failure for the model. Node's own messages quote paths of the host, so only the code is used. */
export function fileFailure(tool: string, error: unknown, given: string): ToolFailure {
  if (error instanceof ToolFailure) return error;
  if (error instanceof OutsideWorkspace) return new ToolFailure(`${tool}: ${error.message}`);
  return new ToolFailure(`${tool}: ${given}: ${describe((error as NodeJS.ErrnoException).code)}`);
}

function describe(code: string | undefined): string {
  switch (code) {
    case "ENOENT":
      return "no such file or directory";
    case "EACCES":
    case "EPERM":
      return "permission denied";
    case "ENOTDIR":
      return "not a directory";
    case "EISDIR":
      return "is a directory";
    case "ELOOP":
      return "too many levels of symbolic links";
    case "ENAMETOOLONG":
      return "file name too long";
    case "ENOSPC":
      return "no space left on device";
    case "EMFILE":
    case "ENFILE":
      return "too many open files";
    default:
      return code === undefined ? "i/o error" : `i/o error (${code})`;
  }
}
