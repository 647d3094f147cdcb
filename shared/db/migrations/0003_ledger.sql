-- The event ledger: what clients see. Append-only but for one stamp.

create table events (
  session_id text not null references sessions (id),
  -- Receipt order, gapless from 1 in each session.
  seq bigint not null check (seq >= 1),
  id text not null,
  workspace_id text not null references workspaces (id),
  thread_id text not null references threads (id),
  type text not null,
  -- JSON text without id, type and processed_at. Text, not jsonb: jsonb refuses NUL and reorders keys.
  payload text not null,
  received_at timestamptz not null,
  -- When the agent took the event up; null while it is queued.
  processed_at timestamptz,
  -- SHA-256 of the row before it and of this row's own content, so that an export can be verified by anyone.
  previous_hash bytea not null,
  hash bytea not null,
  primary key (session_id, seq)
);
create unique index events_id on events (session_id, id);
create index events_processed on events (session_id, processed_at nulls last, seq);
create index events_type on events (session_id, type, processed_at nulls last, seq);
create index events_queued on events (session_id, thread_id, seq) where processed_at is null;

create function allow_one_stamp() returns trigger language plpgsql as $$
begin
  if old.processed_at is null and new.processed_at is not null
    and (new.session_id, new.seq, new.id, new.workspace_id, new.thread_id, new.type, new.payload, new.received_at,
         new.previous_hash, new.hash)
      = (old.session_id, old.seq, old.id, old.workspace_id, old.thread_id, old.type, old.payload, old.received_at,
         old.previous_hash, old.hash)
  then
    return new;
  end if;
  raise exception 'UPDATE on events is refused: an event may only be stamped processed, once'
    using errcode = 'restrict_violation';
end
$$;
create trigger events_one_stamp before update on events for each row execute function allow_one_stamp();
create trigger events_no_delete before delete on events for each row execute function refuse_change();
create trigger events_no_truncate before truncate on events for each statement execute function refuse_change();
