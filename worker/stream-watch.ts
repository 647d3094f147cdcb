/**
 * A `fetch` that gives up on an event stream which has been silent for `silenceMs`. A network that swallows packets
 * closes nothing: without this, a worker would wait on a dead stream for as long as the connection's own timeouts,
 * while its heartbeats, on other connections, hold the session's lease. The server says something every 15 s.
 */
export function watchedFetch(silenceMs: number, inner: typeof fetch = fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init);
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    if (!isStream || response.body === null) return response;
    return new Response(response.body.pipeThrough(silenceLimit(silenceMs)), response);
  };
}

function silenceLimit(silenceMs: number): TransformStream<Uint8Array, Uint8Array> {
  let timer: NodeJS.Timeout | undefined;
  const restart = (controller: TransformStreamDefaultController<Uint8Array>) => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.error(new Error(`the stream was silent for ${silenceMs} ms`)), silenceMs);
    timer.unref();
  };
  return new TransformStream<Uint8Array, Uint8Array>({
    start: restart,
    transform(chunk, controller) {
      restart(controller);
      controller.enqueue(chunk);
    },
    flush: () => clearTimeout(timer),
  });
}
