/** What asks a program to end: Ctrl-C, a service manager, a terminal that closed. */
const signals = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;

/** Signals closer together than this are one request. */
const echoMs = 1_000;

/**
 * Calls `stop` at the first request to end, once. One request often arrives several times: npm passes on to its child
 * what the terminal has already sent to the whole group. A request after the first second is somebody who has lost
 * patience, and ends the process at once, with the exit code a shell gives for that signal.
 */
export function onStopSignal(stop: (signal: NodeJS.Signals) => void): void {
  let asked: number | undefined;
  for (const [signal, number] of Object.entries(signals) as [keyof typeof signals, number][])
    process.on(signal, () => {
      const now = performance.now();
      if (asked === undefined) {
        asked = now;
        stop(signal);
      } else if (now - asked > echoMs) process.exit(128 + number);
    });
}
