/**
 * A process that plays Lambda's Node runtime: loads the handler that `_HANDLER` names, then takes invocations from the
 * Runtime API one after the other, response streaming included. It has nothing of this project but the bundle.
 *
 * AWS publishes its own as `aws-lambda-ric`; that one compiles a client in C++ when it is installed (cmake, libcurl), so
 * it is no dependency that a fresh clone could have. What follows keeps to its wire format: the head of a streamed
 * answer is JSON, then eight NUL bytes, then the body; an error after the head travels in trailers.
 */
import { request as httpRequest, type IncomingMessage } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";

const HEAD_TYPE = "application/vnd.awslambda.http-integration-response";
const HEAD_END = Buffer.alloc(8);
const STREAMING = Symbol("streaming");

type Handler = ((...parameters: unknown[]) => Promise<unknown>) & { [STREAMING]?: boolean };

/** The stream that a streaming handler writes to. */
class ResponseStream extends PassThrough {
  contentType = "application/octet-stream";
}

Object.assign(globalThis, {
  awslambda: {
    streamifyResponse: (handler: Handler) => Object.assign(handler, { [STREAMING]: true }),
    HttpResponseStream: {
      from(stream: ResponseStream, head: object) {
        stream.contentType = HEAD_TYPE;
        stream.write(JSON.stringify(head));
        stream.write(HEAD_END);
        return stream;
      },
    },
  },
});

interface Answer {
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

function call(
  method: "GET" | "POST",
  target: string,
  body: string | ResponseStream = "",
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const [host, port] = (process.env["AWS_LAMBDA_RUNTIME_API"] ?? "").split(":");
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host, port, method, path: `/2018-06-01/runtime/${target}`, headers },
      (response: IncomingMessage) => {
        response
          .toArray()
          .then(
            (chunks) => resolve({ headers: response.headers, text: Buffer.concat(chunks as Buffer[]).toString() }),
            reject,
          );
      },
    );
    request.on("error", reject);
    if (typeof body === "string") {
      request.end(body);
    } else {
      pipeline(body, request).catch(reject);
    }
  });
}

/** As strict as AWS's own was before it was written anew for Node 24: an error that it cannot read has no name. */
function described(error: unknown): string {
  if (!(error instanceof Error)) {
    return JSON.stringify({ errorType: typeof error, errorMessage: String(error), trace: [] });
  }
  const { name, message, stack } = error;
  return stack === undefined
    ? JSON.stringify({ errorType: "handled", errorMessage: "The error has no stack." })
    : JSON.stringify({ errorType: name, errorMessage: message, trace: stack.split("\n") });
}

const text = (value: string | string[] | undefined) => String(value ?? "");

async function main(): Promise<never> {
  let handler: Handler;
  try {
    const [file = "", name = ""] = (process.env["_HANDLER"] ?? "").split(".");
    const load = createRequire(path.join(process.env["LAMBDA_TASK_ROOT"] ?? "", "package.json"));
    handler = (load(`./${file}`) as Record<string, Handler>)[name] as Handler;
    if (typeof handler !== "function") {
      throw new Error(`${process.env["_HANDLER"]} is no function.`);
    }
  } catch (error) {
    await call("POST", "init/error", described(error));
    process.exit(1);
  }
  for (;;) {
    const { headers, text: event } = await call("GET", "invocation/next");
    const id = text(headers["lambda-runtime-aws-request-id"]);
    const deadline = Number(headers["lambda-runtime-deadline-ms"]);
    process.env["_X_AMZN_TRACE_ID"] = text(headers["lambda-runtime-trace-id"]);
    const context = {
      awsRequestId: id,
      functionName: process.env["AWS_LAMBDA_FUNCTION_NAME"],
      functionVersion: "$LATEST",
      memoryLimitInMB: process.env["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
      invokedFunctionArn: text(headers["lambda-runtime-invoked-function-arn"]),
      callbackWaitsForEmptyEventLoop: true,
      getRemainingTimeInMillis: () => deadline - Date.now(),
    };
    await (handler[STREAMING] ? stream : buffer)(handler, id, JSON.parse(event), context);
  }
}

async function buffer(handler: Handler, id: string, event: unknown, context: unknown): Promise<void> {
  let answer: string;
  try {
    answer = JSON.stringify((await handler(event, context)) ?? null);
  } catch (error) {
    await call("POST", `invocation/${id}/error`, described(error));
    return;
  }
  await call("POST", `invocation/${id}/response`, answer, { "content-type": "application/json" });
}

async function stream(handler: Handler, id: string, event: unknown, context: unknown): Promise<void> {
  const body = new ResponseStream();
  let sent: Promise<Answer> | undefined;
  // The head of the answer goes out with the first byte.
  body.once("readable", () => {
    sent ??= call("POST", `invocation/${id}/response`, body, {
      "content-type": body.contentType,
      "lambda-runtime-function-response-mode": "streaming",
      "transfer-encoding": "chunked",
    });
    sent.catch(() => body.destroy());
  });
  try {
    await handler(event, body, context);
    body.end();
  } catch (error) {
    if (sent === undefined) {
      await call("POST", `invocation/${id}/error`, described(error));
      return;
    }
    body.destroy();
  }
  await sent?.catch(() => {});
}

await main();
