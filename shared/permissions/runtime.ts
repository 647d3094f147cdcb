import type { PolicyType } from "../contract/tools.ts";

/** Who executes a tool. Policy and execution are separate; see docs/architecture.md. */
export type ToolOwner = "provider_native" | "platform_managed" | "client_self_hosted" | "client_custom";

/** One tool that the session's model is offered. */
export interface PinnedTool {
  readonly name: string;
  readonly owner: ToolOwner;
  /** Null for custom tools: the application owns them. */
  readonly policy: PolicyType | null;
  /** The declaration of the provider request: JSON text. */
  readonly declaration: string;
}

/** What is pinned when a session is created, so that no later rollout changes a running session. */
export interface SessionRuntime {
  readonly agentName: string;
  /** Which kind of provider the session talks to: `messages` or `offline`. */
  readonly provider: string;
  readonly system: string | null;
  readonly model: string;
  /** The environment as it was: its id, and when it was last changed. */
  readonly environment: { readonly id: string; readonly updatedAt: string };
  /** Version of the agent that was resolved. */
  readonly agent: { readonly id: string; readonly version: number };
  readonly tools: readonly PinnedTool[];
  /** Version of the built-in tools' declarations. */
  readonly toolVersion: string;
  /** The endpoint's capability profile, by name and version. */
  readonly profileVersion: string;
}
