import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";
import { PageOutcome } from "../shared/web-fetch/fetch-page.ts";
import type { PageFetcher } from "../shared/web-fetch/managed-web-fetch.ts";

/** Longer than the function's own time, so that silence means that its answer is lost. */
const ANSWER_MS = 70_000;

/**
 * Has pages fetched by the function outside (`fetch-page.lambda.ts`). It rejects when that function could not be asked,
 * failed, or answered what cannot be read. An abort ends the wait; the function itself ends with its own time limit.
 */
export function pageCaller(functionName: string): PageFetcher {
  const client = new LambdaClient({
    // A call is made once, as the journal says.
    maxAttempts: 1,
    // One connection for each: one kept through a freeze may be gone, and there is no second attempt.
    requestHandler: { httpAgent: { keepAlive: false }, httpsAgent: { keepAlive: false } },
  });
  return async (request, signal) => {
    const { FunctionError, Payload } = await client.send(
      new InvokeCommand({ FunctionName: functionName, Payload: JSON.stringify(request) }),
      { abortSignal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) },
    );
    if (FunctionError !== undefined) {
      throw new Error("The function that fetches pages failed; its log says more.");
    }
    return PageOutcome.parse(JSON.parse(Payload?.transformToString() ?? "null"));
  };
}
