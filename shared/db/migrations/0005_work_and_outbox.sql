-- Work for self-hosted workers, and the messages to Step Functions that a commit promises.

create table work_items (
  id text primary key,
  workspace_id text not null references workspaces (id),
  environment_id text not null references environments (id),
  session_id text not null references sessions (id),
  state text not null check (state in ('queued', 'starting', 'active', 'stopping', 'stopped')),
  metadata text not null default '{}',
  -- Digest of the claim's token, rotated at every claim; null when nobody holds the item.
  token_digest bytea unique,
  worker_id text,
  claimed_at timestamptz,
  -- The heartbeat as the worker must repeat it, compared as an exact string; null before the first.
  last_heartbeat text,
  lease_expires_at timestamptz,
  created_at timestamptz not null,
  acknowledged_at timestamptz,
  started_at timestamptz,
  latest_heartbeat_at timestamptz,
  stop_requested_at timestamptz,
  stopped_at timestamptz
);
-- One live item a session; one more may be queued while another is stopping.
create unique index work_items_one_live on work_items (session_id) where state in ('queued', 'starting', 'active');
create index work_items_stopping on work_items (session_id) where state = 'stopping';
create index work_items_claimable on work_items (environment_id, created_at) where state in ('queued', 'starting', 'active', 'stopping');

-- What must be said to Step Functions because a transaction committed. A row is removed by the effect it asked for
-- (the segment that it started, the parked state that it released), so that a lost message is sent again.
create table outbox (
  id text primary key,
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  turn_id text not null references turns (id),
  segment integer not null,
  kind text not null check (kind in ('start', 'release')),
  task_token text,
  -- What it means when nothing waits on the token any more: that the execution is lost, or nothing.
  lost_if_stale boolean not null default true,
  payload text not null,
  created_at timestamptz not null,
  -- Until when somebody is delivering it.
  claimed_until timestamptz not null,
  attempts integer not null default 1
);
create index outbox_due on outbox (claimed_until);
create index outbox_turn on outbox (turn_id);
