/** What a supervisor makes of the worker's end: 1 is worth another start, the others need a person first. */
export const EXIT = { clean: 0, failed: 1, usage: 2, refused: 3, noLauncher: 4 } as const;
