/**
 * What the HTTP contract demands, one line each. `section` is where it is said: a section of
 * `reference/managed-agents-api.md`, "DESIGN n", "scope", "seeds/…", or a known failure "Fnn".
 */
import { AGENTS } from "./requirements/agents.ts";
import { ENVIRONMENTS } from "./requirements/environments.ts";
import { EVENT_LISTS, EVENTS } from "./requirements/events.ts";
import { PERMISSIONS } from "./requirements/permissions.ts";
import { SESSION_LISTS, SESSIONS } from "./requirements/sessions.ts";
import { STREAMS, THREADS } from "./requirements/streams.ts";
import { CLIENTS, IDEMPOTENCY, ROBUSTNESS, TENANCY, TRANSPORT } from "./requirements/transport.ts";
import { ENVIRONMENT_KEYS, HEALTHCHECKS, WORK } from "./requirements/work.ts";

export interface Requirement {
  readonly id: string;
  readonly section: string;
  readonly says: string;
}

export const REQUIREMENTS = [
  ...TRANSPORT,
  ...IDEMPOTENCY,
  ...TENANCY,
  ...ROBUSTNESS,
  ...CLIENTS,
  ...AGENTS,
  ...PERMISSIONS,
  ...ENVIRONMENTS,
  ...ENVIRONMENT_KEYS,
  ...WORK,
  ...HEALTHCHECKS,
  ...SESSIONS,
  ...SESSION_LISTS,
  ...EVENTS,
  ...EVENT_LISTS,
  ...STREAMS,
  ...THREADS,
] as const satisfies readonly Requirement[];

export type RequirementId = (typeof REQUIREMENTS)[number]["id"];
