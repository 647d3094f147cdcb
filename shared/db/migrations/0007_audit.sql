-- What one request contained, and who looked.

-- What is pinned with a session, one row a revision: an update of the session's tools makes the next.
create table session_runtimes (
  session_id text not null references sessions (id),
  revision integer not null check (revision >= 1),
  workspace_id text not null references workspaces (id),
  runtime text not null,
  created_at timestamptz not null,
  primary key (session_id, revision)
);
alter table sessions add column runtime_revision integer not null default 1;

-- The recipe of each provider request. Entries of a transcript are never removed or reordered, so the place of the
-- last one names them all; their number and digest prove it.
create table context_snapshots (
  call_id text primary key references provider_calls (id),
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  turn_id text not null references turns (id),
  -- The request before it in the session's history; null for the first.
  parent_call_id text references context_snapshots (call_id),
  runtime_revision integer not null,
  through_turn integer not null,
  through_entry integer not null,
  entry_count integer not null,
  entries_digest bytea not null,
  -- Entries whose files were left out because the provider had refused them.
  refused_entry_ids text[] not null,
  adapter_version text not null,
  context_policy_version text not null,
  token_estimate integer not null,
  request_bytes integer not null,
  request_digest bytea not null,
  created_at timestamptz not null
);
create index context_snapshots_session on context_snapshots (session_id, created_at, call_id);

-- Who read what people and models said to each other, outside the API.
create table audit_records (
  id text primary key,
  session_id text not null,
  actor text not null,
  action text not null,
  created_at timestamptz not null default now()
);

-- A deleted session leaves its id.
create table session_tombstones (
  session_id text primary key,
  workspace_id text not null references workspaces (id),
  deleted_at timestamptz not null,
  purged_at timestamptz not null default now()
);

alter table turns add column recoveries integer not null default 0;
-- Worst-case history events of the current segment's execution so far; see turns/segment-budget.ts.
alter table turns rename column segment_rounds to segment_events;

-- Append-only, until the session that they belong to is being deleted.
create function refuse_delete_while_living() returns trigger language plpgsql as $$
begin
  if exists (select 1 from sessions where id = old.session_id and deleting_at is not null) then
    return old;
  end if;
  raise exception 'DELETE on % is refused: the table is append-only while its session lives', tg_table_name
    using errcode = 'restrict_violation';
end
$$;
drop trigger events_no_delete on events;
create trigger events_no_delete before delete on events for each row execute function refuse_delete_while_living();
drop trigger transcript_append_only on transcript_entries;
create trigger transcript_no_update before update on transcript_entries for each row execute function refuse_change();
create trigger transcript_no_delete before delete on transcript_entries for each row execute function refuse_delete_while_living();
create trigger session_runtimes_no_update before update on session_runtimes for each row execute function refuse_change();
create trigger session_runtimes_no_delete before delete on session_runtimes for each row execute function refuse_delete_while_living();
create trigger context_snapshots_no_update before update on context_snapshots for each row execute function refuse_change();
create trigger context_snapshots_no_delete before delete on context_snapshots for each row execute function refuse_delete_while_living();
create trigger context_snapshots_no_truncate before truncate on context_snapshots for each statement execute function refuse_change();
create index sessions_deleting on sessions (deleting_at) where deleting_at is not null;
create index turns_active on turns (session_id) where state in ('running', 'parked', 'hibernated', 'backing_off');
create index provider_calls_session on provider_calls (session_id);
create index tool_steps_turn on tool_steps (turn_id, round);
