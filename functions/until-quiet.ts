/** Looks in a row at which a stream had nothing to show: longer than a database that has just resumed reads a page. */
const SILENT_LOOKS = 5;

export interface UntilQuietOptions {
  readonly isQuiet: () => Promise<boolean>;
  /** Where the client stood when it came; null when it did not say. */
  readonly position: string | null;
  /** All is quiet, and the stream has shown everything, up to this position. */
  readonly onShown: (position: string) => Promise<void>;
  /** The last frame, which tells the client to come back. */
  readonly hint: Uint8Array;
  readonly lookMs: number;
}

/**
 * The app's stream, which reads the database, ends when all is quiet; its client comes back, and is held. It ends only
 * when it has shown what it has: a client that came for what it missed is given all of it, however much that is.
 */
export function untilQuiet(response: Response, options: UntilQuietOptions): Response {
  const reader = response.body?.getReader();
  if (reader === undefined) {
    return response;
  }
  let { position } = options;
  /** Whether the client would take more; a stream that waits for its client has not shown everything. */
  let asked = false;
  let silentLooks = 0;
  let quieted = false;

  const silent = () => silentLooks >= SILENT_LOOKS && !quieted;
  async function look(): Promise<void> {
    silentLooks = asked ? silentLooks + 1 : 0;
    // Looked at again after the wait: a slow answer of the database may have come meanwhile.
    if (!silent() || !(await options.isQuiet()) || !silent()) {
      return;
    }
    quieted = true;
    if (position !== null) {
      // A client that is not known when it comes back goes to the app again.
      await options.onShown(position).catch(() => {});
    }
    await reader?.cancel();
  }

  // The marker cannot be read: the next look decides.
  const timer = setInterval(() => void look().catch(() => {}), options.lookMs);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      asked = true;
      const { value, done } = await reader.read().catch((error: unknown) => {
        clearInterval(timer);
        throw error;
      });
      asked = false;
      if (!done) {
        position = lastId(value) ?? position;
        if (!isComment(value)) silentLooks = 0;
        controller.enqueue(value);
        return;
      }
      clearInterval(timer);
      if (quieted) controller.enqueue(options.hint);
      controller.close();
    },
    async cancel(reason) {
      clearInterval(timer);
      await reader.cancel(reason);
    },
  });
  return new Response(body, response);
}

/** The app gives whole frames. A line of data starts with `data:`, whatever it says. */
function lastId(frames: Uint8Array): string | undefined {
  const ids = Buffer.from(frames)
    .toString()
    .match(/^id: \d+$/gm);
  return ids?.at(-1)?.slice("id: ".length);
}

function isComment(frames: Uint8Array): boolean {
  return frames[0] === ":".charCodeAt(0);
}
