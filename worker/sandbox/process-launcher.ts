import type { Launcher, LaunchRequest, Sandbox } from "./launcher.ts";
import { startProcess } from "./start-process.ts";

/**
 * Runs programs on this host as the worker's own user: for development, and for machines that may be lost. It isolates
 * nothing: a command can read whatever the worker can, its memory with the keys included.
 */
export const processLauncher: Launcher = {
  name: "process",
  async enter({ folder }): Promise<Sandbox> {
    const programs = new Set<() => void>();
    return {
      workspace: folder,
      launchFileTools: null,
      async launch(request: LaunchRequest) {
        const program = startProcess({ ...request, cwd: folder });
        programs.add(program.kill);
        void program.exited.then(() => programs.delete(program.kill));
        return program;
      },
      async close() {
        for (const kill of programs) kill();
      },
    };
  },
};
