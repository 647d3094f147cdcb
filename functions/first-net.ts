import type { Log } from "../shared/ports/log.ts";
import type { Orchestrator } from "../shared/ports/orchestrator.ts";

/**
 * The relay's first net. What an invocation could not say to Step Functions (it throttles, or does not answer within the
 * second that a request waits for it) stays in the outbox; a delayed message makes the relay look when the row's claim
 * has run out, instead of at its next minute. What a crash left behind has no such message: the schedule finds it.
 */
export interface FirstNet {
  readonly orchestrator: Orchestrator;
  /** At the end of an invocation, before its environment is frozen: sends the message when one is needed. */
  settle(): Promise<void>;
}

export function firstNet(orchestrator: Orchestrator, send: () => Promise<unknown>, log: Log): FirstNet {
  const underWay = new Set<Promise<unknown>>();
  let failed = false;
  const caught = async <Outcome>(call: Promise<Outcome>): Promise<Outcome> => {
    underWay.add(call);
    try {
      return await call;
    } catch (error) {
      failed = true;
      throw error;
    } finally {
      underWay.delete(call);
    }
  };
  return {
    orchestrator: {
      start: (params) => caught(orchestrator.start(params)),
      find: (params) => orchestrator.find(params),
      release: (params) => caught(orchestrator.release(params)),
    },
    async settle() {
      if (!failed && underWay.size === 0) {
        return;
      }
      failed = false;
      try {
        await send();
      } catch (error) {
        log.warn("The relay could not be told; its schedule finds the row.", { error: (error as Error).name });
      }
    },
  };
}
