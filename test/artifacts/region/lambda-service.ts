/** Lambda as the other services see it: functions by name, each with as many environments as invocations run at once. */
import { LambdaEnvironment, type LambdaFunction, type Outcome } from "./lambda-environment.ts";

/** A line that a function wrote to its log. */
export interface LogLine {
  readonly function: string;
  readonly text: string;
}

/**
 * Environments of one function that stay when nothing is to do. Lambda, too, lets them go at some time; each has a
 * connection, and what stands for the proxy here gives each its own.
 */
const KEPT = 4;

export class LambdaService {
  readonly logs: LogLine[] = [];
  readonly #functions: ReadonlyMap<string, LambdaFunction>;
  readonly #platform: Readonly<Record<string, string>>;
  readonly #idle = new Map<string, LambdaEnvironment[]>();
  readonly #all = new Set<LambdaEnvironment>();
  #stopped = false;

  constructor(functions: readonly LambdaFunction[], platform: Readonly<Record<string, string>>) {
    this.#functions = new Map(functions.flatMap((fn) => [[fn.name, fn] as const, [fn.arn, fn] as const]));
    this.#platform = platform;
  }

  /** By name or ARN. The answer's body may still stream. */
  async invoke(nameOrArn: string, event: unknown): Promise<Outcome> {
    const fn = this.#functions.get(nameOrArn);
    if (fn === undefined) {
      throw new Error(`The template has no function ${nameOrArn}.`);
    }
    const environment = this.#idle.get(fn.name)?.pop() ?? (await this.#start(fn));
    return environment.invoke(JSON.stringify(event));
  }

  /** The whole answer, parsed. @throws Error with the function's error type as its name, as Step Functions sees it. */
  async call(nameOrArn: string, event: unknown): Promise<unknown> {
    const outcome = await this.invoke(nameOrArn, event);
    if (outcome.kind === "error") {
      const log = this.logs.filter(({ function: name }) => name === this.#functions.get(nameOrArn)?.name);
      const cause = log.map(({ text }) => text).join("\n");
      throw Object.assign(new Error(outcome.message, { cause }), { name: outcome.type });
    }
    return JSON.parse(Buffer.concat((await outcome.body.toArray()) as Buffer[]).toString());
  }

  /** Ends the environments of one function, as an update of its code does. */
  async recycle(name: string): Promise<void> {
    await Promise.all((this.#idle.get(name) ?? []).splice(0).map((environment) => environment.stop()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#all].map((environment) => environment.stop()));
  }

  async #start(fn: LambdaFunction): Promise<LambdaEnvironment> {
    const environment = await LambdaEnvironment.start(fn, this.#platform, (text) =>
      this.logs.push({ function: fn.name, text }),
    );
    if (this.#stopped) {
      // It was being made meanwhile; frozen, it would outlive whoever made it.
      await environment.stop();
      return environment;
    }
    this.#all.add(environment);
    const idle = this.#idle.get(fn.name) ?? [];
    this.#idle.set(fn.name, idle);
    environment.onIdle = (dead) => {
      const at = idle.indexOf(environment);
      if (dead) {
        this.#all.delete(environment);
        if (at >= 0) idle.splice(at, 1);
      } else {
        idle.push(environment);
        if (idle.length > KEPT) {
          void idle.shift()?.stop();
        }
      }
    };
    return environment;
  }
}
