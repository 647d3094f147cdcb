-- Turns, their rounds, the provider transcript, the operation journal and the barrier.

create table turns (
  id text primary key,
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  thread_id text not null references threads (id),
  -- The turn's place in its thread, from 1: the order in which the model sees turns.
  ordinal integer not null check (ordinal >= 1),
  trigger_event_id text not null,
  -- Counts the executions started for this turn. A handler of an older segment may not write.
  segment integer not null default 1 check (segment >= 1),
  state text not null check (state in
    ('running', 'parked', 'hibernated', 'backing_off', 'completed', 'interrupted', 'exhausted')),
  -- Where a parked or backing-off execution waits; null when none does.
  task_token text,
  -- Counts provider requests repeated after a retryable failure, reset by each answer.
  retries integer not null default 0,
  -- Rounds begun in the current segment, for the hand over.
  segment_rounds integer not null default 0,
  -- The provider refused the turn's first request as malformed: its images and documents are left out from then on.
  trigger_refused boolean not null default false,
  created_at timestamptz not null,
  ended_at timestamptz,
  unique (thread_id, ordinal)
);
create unique index turns_one_active on turns (thread_id)
  where state in ('running', 'parked', 'hibernated', 'backing_off');
create index turns_session on turns (session_id);

-- One provider request and what came of it.
create table rounds (
  turn_id text not null references turns (id),
  number integer not null check (number >= 1),
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  -- open: asked, not answered. answered: the response is stored. gated: its calls are published.
  state text not null check (state in ('open', 'answered', 'gated')),
  stop_reason text,
  stop_details text,
  primary key (turn_id, number)
);

-- What the model sees: exact blocks, in order. A turn's entries join the thread when the turn ends.
create table transcript_entries (
  turn_id text not null references turns (id),
  ordinal integer not null check (ordinal >= 0),
  id text not null unique,
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  thread_id text not null references threads (id),
  role text not null check (role in ('user', 'assistant')),
  -- JSON text of an array of blocks, byte for byte as sent or received.
  content text not null,
  -- Ids of the tool_use (assistant) or tool_result (user) blocks within, so that orphans are found without parsing.
  tool_use_ids text[] not null default '{}',
  provider text not null,
  model text not null,
  tool_version text not null,
  profile_version text not null,
  created_at timestamptz not null,
  primary key (turn_id, ordinal)
);
create trigger transcript_append_only before update or delete on transcript_entries
  for each row execute function refuse_change();
create trigger transcript_no_truncate before truncate on transcript_entries
  for each statement execute function refuse_change();

-- The operation journal, first half: requests to the model.
create table provider_calls (
  id text primary key,
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  turn_id text not null,
  round integer not null,
  attempt integer not null check (attempt >= 1),
  -- failed: the provider said no, nothing was generated. ambiguous: nobody knows; it may be billed.
  state text not null check (state in ('prepared', 'started', 'completed', 'failed', 'ambiguous')),
  segment integer not null,
  request_digest bytea not null,
  span_event_id text not null,
  owner text,
  lease_expires_at timestamptz,
  provider text not null,
  model text not null,
  provider_request_id text,
  stop_reason text,
  error_type text,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_read_input_tokens bigint not null default 0,
  cache_creation_input_tokens bigint not null default 0,
  created_at timestamptz not null,
  completed_at timestamptz,
  foreign key (turn_id, round) references rounds (turn_id, number),
  unique (turn_id, round, attempt)
);

-- The operation journal, second half: tool calls. Also the id map: provider id, step id and public event id.
create table tool_steps (
  id text primary key,
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  turn_id text not null,
  round integer not null,
  -- The call's place in the response.
  position integer not null,
  event_id text not null,
  provider_tool_use_id text not null,
  name text not null,
  -- JSON text exactly as the model wrote it.
  input text not null,
  input_digest bytea not null,
  owner text not null check (owner in ('provider_native', 'platform_managed', 'client_self_hosted', 'client_custom', 'none')),
  -- What the policy said; null until the gate.
  permission text check (permission in ('allow', 'ask', 'deny')),
  state text not null check (state in ('prepared', 'started', 'completed', 'ambiguous')),
  idempotency_key text not null unique,
  run_owner text,
  lease_expires_at timestamptz,
  -- JSON text of the result's content blocks; null until there is one.
  result text,
  is_error boolean,
  result_event_id text,
  created_at timestamptz not null,
  completed_at timestamptz,
  foreign key (turn_id, round) references rounds (turn_id, number),
  unique (turn_id, round, position),
  unique (session_id, event_id),
  unique (turn_id, round, provider_tool_use_id)
);

-- The barrier: what a turn waits for. Written with the actions it names, in one transaction.
create table pending_actions (
  session_id text not null references sessions (id),
  event_id text not null,
  need text not null check (need in ('confirmation', 'result')),
  workspace_id text not null references workspaces (id),
  turn_id text not null references turns (id),
  step_id text not null references tool_steps (id),
  -- How it ended: allow, deny, result, closed (an interrupt or a failure); null while it is open.
  resolution text check (resolution in ('allow', 'deny', 'result', 'closed')),
  resolved_by_event_id text,
  created_at timestamptz not null,
  resolved_at timestamptz,
  primary key (session_id, event_id, need)
);
create index pending_actions_open on pending_actions (session_id) where resolved_at is null;
