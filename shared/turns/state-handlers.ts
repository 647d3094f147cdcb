import type {
  AwaitInput,
  BackoffInput,
  FailTurnInput,
  RunToolInput,
  TurnRef,
} from "../../statemachines/turn-payload.ts";
import type { Product } from "../product.ts";
import { awaitActions, backoff, handOver, hibernate } from "./await-actions.ts";
import { callModel } from "./call-model.ts";
import { completeTurn, failTurn } from "./complete-turn.ts";
import { gateTools } from "./gate-tools.ts";
import { runTool } from "./run-tool.ts";

/** What a handler is told of its invocation. */
interface Invocation {
  /** When the state gives up on the answer. */
  readonly deadline?: Date;
}

/** The task states of `turn.asl.json` and who handles each: the substitution `${<State>Function}` names the function. */
export const STATE_HANDLERS = {
  CallModel: (product: Product, input: unknown, invocation: Invocation) =>
    callModel(product, input as TurnRef, invocation),
  GateTools: (product: Product, input: unknown) => gateTools(product, input as TurnRef),
  RunTool: (product: Product, input: unknown) => runTool(product, input as RunToolInput),
  AwaitActions: (product: Product, input: unknown) => awaitActions(product, input as AwaitInput),
  Hibernate: (product: Product, input: unknown) => hibernate(product, input as TurnRef),
  Backoff: (product: Product, input: unknown) => backoff(product, input as BackoffInput),
  HandOver: (product: Product, input: unknown) => handOver(product, input as TurnRef),
  CompleteTurn: (product: Product, input: unknown) => completeTurn(product, input as TurnRef),
  FailTurn: (product: Product, input: unknown) => failTurn(product, input as FailTurnInput),
} as const satisfies Record<string, (product: Product, input: unknown, invocation: Invocation) => Promise<unknown>>;

export type StateName = keyof typeof STATE_HANDLERS;
