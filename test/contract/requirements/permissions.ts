/** Section 4, 9.5 B, seeds/tool-permissions. */
export const PERMISSIONS = [
  {
    id: "permissions:defaults",
    section: "4",
    says: "built-in default: always_allow for the agent toolset, always_ask for MCP",
  },
  { id: "permissions:precedence", section: "4", says: "a tool's own policy wins over the toolset's default" },
  { id: "permissions:custom-none", section: "4", says: "custom tools have no policy" },
  {
    id: "permissions:policy-values",
    section: "4",
    says: "a policy is always_allow, always_ask or auto, and nothing else",
  },
  {
    id: "permissions:auto-stored",
    section: "seeds/tool-permissions",
    says: "auto is a policy of built-in and MCP tools",
  },
  {
    id: "permissions:web-tools",
    section: "DESIGN 5, seeds/tool-permissions",
    says: "enabled web tools require always_allow: ask and auto are a 422",
  },
  {
    id: "permissions:web-managed",
    section: "4, DESIGN 5",
    says: "where the server itself runs web_fetch it obeys the same policies; web_search still does not",
  },
  {
    id: "permissions:web-unclaimed",
    section: "DESIGN 5",
    says: "a web tool enabled by name that nobody runs is a 422 that names tool and capability; by default it is not offered",
  },
  {
    id: "permissions:disabled",
    section: "4",
    says: "a call of a disabled tool is denied without evaluation, and the turn goes on",
  },
  { id: "permissions:allow-event", section: "4", says: "an allowed call carries allow and {type: always_allow}" },
  {
    id: "permissions:ask-event",
    section: "4, 9.5",
    says: "an asking call carries ask and {type: always_ask}; the session idles with requires_action",
  },
  { id: "permissions:result-first", section: "0, F41", says: "a result before allow is a 400 and changes nothing" },
  {
    id: "permissions:allow-then-result",
    section: "0, 4",
    says: "after allow the same id stays required until its result",
  },
  {
    id: "permissions:deny",
    section: "4",
    says: "deny makes an error result with the message, and the model is asked again",
  },
  { id: "permissions:deny-message", section: "2.1, 4", says: "deny_message with allow is invalid" },
  {
    id: "permissions:partial",
    section: "2.6, 4",
    says: "a partial answer idles again with the remainder; only the last one runs",
  },
  { id: "permissions:batch", section: "4", says: "several confirmations may go in one request" },
  {
    id: "permissions:answered",
    section: "DESIGN 6",
    says: "a second answer to a call adds nothing; a contrary one is a 409",
  },
] as const;
