-- Work beyond sessions (health checks), what is known of a claim, and who polls.

alter table work_items alter column session_id drop not null;
alter table work_items
  -- A health check's id; an item is for a session or for a health check.
  add column healthcheck_id text,
  add constraint work_items_one_purpose check ((session_id is null) <> (healthcheck_id is null)),
  -- The environment key that claimed it, which alone of its kind may acknowledge and stop it.
  add column claimed_by_key text,
  -- Where the session's ledger stood at the claim: what came later came while it was held.
  add column claimed_seq bigint,
  -- When this claim was first shown the session's events: from then on it may have begun a call.
  add column events_read_at timestamptz,
  -- A session whose workers achieve nothing gets the next one later.
  add column not_before timestamptz,
  -- How a health check ended, and why it failed.
  add column outcome text check (outcome in ('finished', 'failed', 'lost', 'withdrawn')),
  add column failure text;
-- Cursors carry whole milliseconds.
update work_items set created_at = date_trunc('milliseconds', created_at);
create index work_items_listed on work_items (environment_id, created_at desc, id desc);
create index work_items_leases on work_items (lease_expires_at) where state in ('starting', 'active', 'stopping');
create index work_items_healthchecks on work_items (created_at) where healthcheck_id is not null and state <> 'stopped';

-- Activations in a row that left a call open without answering any.
alter table sessions add column fruitless_activations integer not null default 0;

-- Which workers polled an environment, and when last.
create table environment_pollers (
  environment_id text not null references environments (id) on delete cascade,
  worker_id text not null,
  workspace_id text not null references workspaces (id),
  polled_at timestamptz not null,
  primary key (environment_id, worker_id)
);
create index environment_pollers_polled on environment_pollers (polled_at);
