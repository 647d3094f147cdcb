/** One execution environment of a Lambda function: a process of its own, and the Runtime API that feeds it. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

const RUNTIME = fileURLToPath(new URL("./lambda-runtime.ts", import.meta.url));

/** What the template says of a function, its references resolved. */
export interface LambdaFunction {
  readonly name: string;
  readonly arn: string;
  /** The bundle's folder in the cloud assembly. */
  readonly folder: string;
  readonly handler: string;
  readonly timeoutSeconds: number;
  readonly memory: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** How an invocation came out; the body of a streamed answer is still on its way. */
export type Outcome =
  | { readonly kind: "answer"; readonly contentType: string; readonly body: Readable }
  | { readonly kind: "error"; readonly type: string; readonly message: string };

interface Invocation {
  readonly id: string;
  readonly event: string;
  settle(outcome: Outcome): void;
}

export class LambdaEnvironment {
  readonly #function: LambdaFunction;
  readonly #process: ChildProcess;
  readonly #api: Server;
  #waiting: ServerResponse | undefined;
  #current: Invocation | undefined;
  #dead: Outcome | undefined;
  /** Called when the environment may be invoked again, frozen until then. */
  onIdle: (dead: boolean) => void = () => {};

  private constructor(fn: LambdaFunction, process: ChildProcess, api: Server) {
    this.#function = fn;
    this.#process = process;
    this.#api = api;
    api.on("request", (request: IncomingMessage, response: ServerResponse) => this.#serve(request, response));
    process.once("exit", () => this.#end({ kind: "error", type: "Runtime.ExitError", message: "The process ended." }));
  }

  /**
   * @param platform Variables that Lambda itself sets, and what stands for the region's name service and authorities.
   * @param print Takes each line that the function writes to its log.
   */
  static async start(
    fn: LambdaFunction,
    platform: Readonly<Record<string, string>>,
    print: (line: string) => void,
  ): Promise<LambdaEnvironment> {
    const api = createServer();
    api.keepAliveTimeout = 0;
    api.requestTimeout = 0;
    api.listen(0, "127.0.0.1");
    await once(api, "listening");
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", RUNTIME], {
      cwd: fn.folder,
      env: {
        ...platform,
        AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${(api.address() as AddressInfo).port}`,
        AWS_LAMBDA_FUNCTION_NAME: fn.name,
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(fn.memory),
        LAMBDA_TASK_ROOT: fn.folder,
        _HANDLER: fn.handler,
        ...fn.variables,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const environment = new LambdaEnvironment(fn, child, api);
    for (const output of [child.stdout, child.stderr]) {
      output.setEncoding("utf8").on("data", (text: string) => text.trimEnd().split("\n").forEach(print));
    }
    return environment;
  }

  /** The environment must be idle. */
  invoke(event: string): Promise<Outcome> {
    if (this.#dead !== undefined) {
      return Promise.resolve(this.#dead);
    }
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const timer = setTimeout(() => {
      this.kill({ kind: "error", type: "Sandbox.Timedout", message: "The function's time is over." });
    }, this.#function.timeoutSeconds * 1000);
    this.#current = {
      id: randomUUID(),
      event,
      settle: (outcome) => {
        resolve(outcome);
        if (outcome.kind === "error") clearTimeout(timer);
        else outcome.body.once("close", () => clearTimeout(timer));
      },
    };
    this.#process.kill("SIGCONT");
    this.#hand();
    return promise;
  }

  kill(why: Outcome = { kind: "error", type: "Runtime.ExitError", message: "The environment was ended." }): void {
    this.#end(why);
    this.#process.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    const ended = this.#process.exitCode === null && this.#process.signalCode === null;
    const exit = ended ? once(this.#process, "exit") : Promise.resolve();
    this.kill();
    await exit;
  }

  #hand(): void {
    const [invocation, response] = [this.#current, this.#waiting];
    if (invocation === undefined || response === undefined) return;
    this.#waiting = undefined;
    response.writeHead(200, {
      "content-type": "application/json",
      "lambda-runtime-aws-request-id": invocation.id,
      "lambda-runtime-deadline-ms": String(Date.now() + this.#function.timeoutSeconds * 1000),
      "lambda-runtime-invoked-function-arn": this.#function.arn,
      "lambda-runtime-trace-id": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
    });
    response.end(invocation.event);
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = request.url ?? "";
    if (url.endsWith("/invocation/next")) {
      this.#waiting = response;
      if (this.#current === undefined) this.#freeze();
      else this.#hand();
      return;
    }
    const invocation = this.#current;
    if (url.endsWith("/response") && invocation !== undefined) {
      request.once("close", () => {
        this.#current = undefined;
        if (!response.writableEnded) response.writeHead(202).end("{}");
      });
      invocation.settle({ kind: "answer", contentType: String(request.headers["content-type"]), body: request });
      return;
    }
    void request.toArray().then((chunks) => {
      const { errorType, errorMessage } = JSON.parse(Buffer.concat(chunks as Buffer[]).toString()) as {
        errorType: string;
        errorMessage: string;
      };
      this.#current = undefined;
      response.writeHead(202).end("{}");
      const outcome: Outcome = { kind: "error", type: errorType, message: errorMessage };
      if (url.endsWith("/init/error")) this.#end(outcome, invocation);
      else invocation?.settle(outcome);
    });
  }

  /** Between two invocations no instruction of the function runs. */
  #freeze(): void {
    this.#process.kill("SIGSTOP");
    this.onIdle(false);
  }

  #end(why: Outcome, invocation = this.#current): void {
    if (this.#dead !== undefined) return;
    this.#dead = why;
    this.#current = undefined;
    invocation?.settle(why);
    this.#api.closeAllConnections();
    this.#api.close();
    this.onIdle(true);
  }
}
