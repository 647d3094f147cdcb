/** Both official SDKs, unmodified. */
import AnthropicOld from "anthropic-sdk-0-120";
import AnthropicNew from "anthropic-sdk-1-14";

/** Both classes have the same methods for the resources of the contract; the newer's type stands for both. */
export const VERSIONS = [
  ["0.120.0", AnthropicOld as unknown as typeof AnthropicNew],
  ["1.14.0", AnthropicNew],
] as const;

export type Client = InstanceType<typeof AnthropicNew>;
