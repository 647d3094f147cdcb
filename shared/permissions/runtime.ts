import type { PolicyType, WebFetchSettings } from "../contract/tools.ts";
import { type CapabilityProfile, CLAIMS_NOTHING } from "../model/capability-profile.ts";

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
  /** Version of the provider's own tool; only with owner provider_native. */
  readonly version?: string;
  /** What the agent says of a web_fetch that the server itself runs; only with that one. */
  readonly webFetch?: WebFetchSettings;
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
  /** Versions of the built-in tools' declarations and of the provider's own tools, joined by `+`. */
  readonly toolVersion: string;
  /** The endpoint's capability profile, by name and version. */
  readonly profileVersion: string;
  /** The profile itself. Absent in sessions of a release that knew none; what a later release adds to it is absent too. */
  readonly profile?: Partial<CapabilityProfile>;
}

/** The profile that the session was pinned with; what it does not state is not claimed. */
export function pinnedProfile(runtime: Pick<SessionRuntime, "profile">): CapabilityProfile {
  return { ...CLAIMS_NOTHING, ...runtime.profile };
}
