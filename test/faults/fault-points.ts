/**
 * The points at which a fault test ends the process: every commit of a transaction and every external call, counted as
 * they are passed. At the chosen one the process kills itself, as the machine would on a power cut.
 */
import type pg from "pg";
import type { Database } from "../../shared/db/transaction.ts";
import type { Product } from "../../shared/product.ts";

export type Side = "before" | "after";

export interface CrashPoint {
  /** From 1. */
  readonly n: number;
  readonly side: Side;
}

export interface FaultPoints {
  /** What kind of point each one was, in the order in which they were passed. */
  readonly passed: readonly string[];
  decorate(product: Product): Product;
}

export function faultPoints(options: {
  readonly crash: CrashPoint | null;
  /** The last words, written synchronously. */
  readonly dying: (point: CrashPoint & { readonly kind: string }) => void;
}): FaultPoints {
  const passed: string[] = [];
  const die = (n: number, side: Side, kind: string) => {
    if (options.crash?.n !== n || options.crash.side !== side) return;
    options.dying({ n, side, kind });
    process.kill(process.pid, "SIGKILL");
    // The signal arrives on the way out of the system call; nothing may happen until then.
    for (;;);
  };
  const pass = async <T>(kind: string, action: () => Promise<T>): Promise<T> => {
    const n = passed.push(kind);
    die(n, "before", kind);
    try {
      return await action();
    } finally {
      die(n, "after", kind);
    }
  };
  return {
    passed,
    decorate(product) {
      const { database, orchestrator, model, tools } = product;
      return {
        ...product,
        database: countingDatabase(database, pass),
        orchestrator: {
          ...orchestrator,
          start: (params) => pass(`start by ${caller()}`, () => orchestrator.start(params)),
          release: (params) => pass(`release by ${caller()}`, () => orchestrator.release(params)),
        },
        model: {
          provider: model.provider,
          stream: (request) => pass("model.stream", () => model.stream(request)),
        },
        tools: { run: (call) => pass("tools.run", () => tools.run(call)) },
      };
    },
  };
}

type Pass = <T>(kind: string, action: () => Promise<T>) => Promise<T>;

function countingDatabase(database: Database, pass: Pass): Database {
  return {
    query: (text, values) => database.query(text, values),
    connect: async () => countingClient(await database.connect(), pass),
  };
}

function countingClient(client: pg.PoolClient, pass: Pass): pg.PoolClient {
  const transaction = { work: "", events: new Set<string>() };
  return new Proxy(client, {
    get(target, property) {
      const value = Reflect.get(target, property) as unknown;
      if (property !== "query") return typeof value === "function" ? value.bind(target) : value;
      return (text: string, values?: readonly unknown[]) => {
        if (text === "commit") {
          const events = [...transaction.events].join(" ");
          return pass(`commit of ${transaction.work}${events === "" ? "" : ` (${events})`}`, () => target.query(text));
        }
        if (text !== "begin") transaction.work = caller("transaction.ts") || transaction.work;
        for (const type of eventTypes(values)) transaction.events.add(type);
        return target.query(text, values as unknown[]);
      };
    },
  });
}

/** The types of the ledger's events that a statement inserts: they tell transactions of one function apart. */
function eventTypes(values: readonly unknown[] | undefined): string[] {
  return (values ?? [])
    .filter((value) => Array.isArray(value))
    .flat()
    .filter((value) => typeof value === "string" && /^(user|agent|session|span)\.[a-z_]+$/.test(value));
}

const PLUMBING = ["relay.ts", "transaction.ts", "idempotency.ts", "call-model.ts", "outbox.ts", "body-limit.ts"];

/**
 * The product's function that called us: the innermost named one that is no plumbing. With a file, the one right inside
 * that file's frame (what a transaction does) and the one right outside of it (who asked for it).
 */
function caller(boundary?: string): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 40;
  const stack = new Error("where are we").stack ?? "";
  Error.stackTraceLimit = limit;
  const frames = [...stack.matchAll(/at (?:async )?(?:(\S+) \()?file:\S*\/shared\/\S*?([\w-]+\.ts):\d+:\d+/g)]
    .map(([, name, file]) => ({ name: name ?? "", file: file ?? "" }))
    .filter(({ file }) => file === boundary || !PLUMBING.includes(file));
  if (boundary === undefined) return frames.find(({ name }) => name !== "")?.name ?? "the relay";
  const at = frames.findIndex(({ file }) => file === boundary);
  const inside = frames[at - 1];
  if (at < 1 || inside === undefined) return "";
  const outside = frames.slice(at).find(({ name, file }) => name !== "" && file !== boundary)?.name;
  return (inside.name || inside.file) + (outside === undefined ? "" : ` for ${outside}`);
}
