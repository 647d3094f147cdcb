/** Section 3 and DESIGN 6, as far as HTTP shows them. What a worker's end does to a session is in `test/faults`. */
export const WORK = [
  {
    id: "work:resource",
    section: "3.1",
    says: "an item has every field of the contract; its secret is null but in a poll",
  },
  {
    id: "work:created",
    section: "3.1, DESIGN 6",
    says: "an item is created with the first input, and only one while one is live",
  },
  {
    id: "work:poll",
    section: "3.2, 3.3",
    says: "a poll hands out an item with a base64url secret that holds sessions_token",
  },
  { id: "work:poll:empty", section: "0, 3.2", says: "nothing to do is JSON null" },
  { id: "work:poll:block", section: "3.2, scope", says: "block_ms waits for an item, above 999 too, up to 20 s" },
  { id: "work:poll:invalid", section: "3.2", says: "block_ms and reclaim_older_than_ms are checked" },
  {
    id: "work:poll:reclaim",
    section: "3.2",
    says: "an unacknowledged claim is handed out again after reclaim_older_than_ms, 5000 unless given",
  },
  {
    id: "work:poll:archived-session",
    section: "scope, DESIGN 6",
    says: "an archived or deleted session's work ends and never comes back",
  },
  {
    id: "work:poll:archived-environment",
    section: "1.4",
    says: "an archived environment's sessions go on, and so does their work",
  },
  { id: "work:ack", section: "3.1", says: "queued becomes starting; again before a heartbeat it is the same answer" },
  { id: "work:ack:conflict", section: "3.1", says: "an item that nobody claimed, or that is further, is a 409" },
  { id: "work:token:after-ack", section: "scope", says: "a claim's token opens its session after the ack, not before" },
  {
    id: "work:heartbeat",
    section: "3.5",
    says: "the first beat says NO_HEARTBEAT, each later one the last answer byte for byte",
  },
  { id: "work:heartbeat:precondition", section: "3.5", says: "another value is a 412 with details.current_state" },
  {
    id: "work:heartbeat:unconditional",
    section: "3.5",
    says: "expected_last_heartbeat may be left out: nothing is compared",
  },
  {
    id: "work:heartbeat:ttl",
    section: "3.2",
    says: "desired_ttl_seconds sets the lease, brought between 10 and 300; 60 unless given",
  },
  { id: "work:heartbeat:stopping", section: "0, 3.5", says: "nothing is compared once the item is stopping" },
  { id: "work:stop", section: "3.1", says: "active becomes stopping, the confirmation stopped; then it is a 409" },
  { id: "work:stop:force", section: "3.1", says: "force is stopped at once" },
  { id: "work:stop:invalid", section: "3.2", says: "an unknown field is a 400; no body is no force" },
  {
    id: "work:stats",
    section: "3.2",
    says: "depth counts the unclaimed, pending the unacknowledged, oldest_queued_at covers both",
  },
  {
    id: "work:stats:workers",
    section: "3.2",
    says: "workers_polling counts the ids of the last 30 s; null where none was ever given",
  },
  { id: "work:get", section: "3.2", says: "an item is read by id; an unknown one is a 404" },
  { id: "work:list", section: "3.2", says: "items are listed in pages, newest first" },
  { id: "work:update", section: "3.2", says: "metadata merges, null deletes" },
  { id: "work:update:invalid", section: "1.1, 3.2", says: "metadata over the limits is a 400 invalid_metadata" },
  { id: "work:not-found", section: "1.1", says: "an unknown item or environment is a 404" },
  { id: "work:sdk", section: "3.2", says: "the official clients' work calls work as they are" },
] as const;

export const ENVIRONMENT_KEYS = [
  { id: "environment-keys:create", section: "scope", says: "the secret is shown once and opens polling" },
  { id: "environment-keys:create:invalid", section: "scope", says: "a name of 1 to 255 characters is required" },
  { id: "environment-keys:secrets", section: "DESIGN 3", says: "only digests are stored" },
  {
    id: "environment-keys:list",
    section: "scope",
    says: "keys are listed in pages, newest first, revoked ones only with include_revoked",
  },
  {
    id: "environment-keys:revoke",
    section: "scope",
    says: "a revoked key opens nothing; revoking again changes nothing",
  },
  {
    id: "environment-keys:rotate",
    section: "scope",
    says: "a rotated key is the same one with a new secret; the old one ends, at once or after the overlap",
  },
  { id: "environment-keys:rotate:revoked", section: "scope", says: "a revoked key is not rotated: 409" },
  { id: "environment-keys:not-found", section: "1.1", says: "an unknown environment or key is a 404" },
] as const;

export const HEALTHCHECKS = [
  { id: "healthchecks:healthy", section: "3.1, scope", says: "a worker that launches, beats and finishes is healthy" },
  {
    id: "healthchecks:skipped",
    section: "3.6",
    says: "a worker that does not know health checks has launched and reached the API",
  },
  { id: "healthchecks:failed", section: "scope", says: "a worker may say what is wrong" },
  { id: "healthchecks:lost", section: "scope", says: "a worker that goes silent has failed" },
  {
    id: "healthchecks:timed-out",
    section: "scope",
    says: "the wait is bounded; it says how far a worker came, and the item is withdrawn",
  },
  { id: "healthchecks:token", section: "DESIGN 6", says: "its token opens no session" },
  { id: "healthchecks:invalid", section: "scope", says: "wait_ms is 1,000 to 20,000; an unknown environment is a 404" },
  { id: "healthchecks:sdk", section: "3.6", says: "the official clients' workers take it up and are not disturbed" },
] as const;
