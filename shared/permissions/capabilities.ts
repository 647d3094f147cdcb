import type { WebTool } from "../contract/tools.ts";
import { type CapabilityProfile, CLAIMS_NOTHING } from "../model/capability-profile.ts";
import type { Product } from "../product.ts";

/** What a deployment can do with a session's tools: the model endpoint's part of it, and the server's own. */
export interface Capabilities {
  /** Which kind of provider: `messages` or `offline`. */
  readonly provider: string;
  readonly profile: CapabilityProfile;
  /** Web tools that the server itself runs, so that a call can be held back before it. */
  readonly managed: readonly WebTool[];
}

export function capabilitiesOf({ model, tools }: Pick<Product, "model" | "tools">): Capabilities {
  return { provider: model.provider, profile: model.profile ?? CLAIMS_NOTHING, managed: tools.manages ?? [] };
}
