-- Keys of environments as a resource, and what operators did.

alter table environment_keys
  add column rotated_at timestamptz,
  -- The secret before the last rotation, good until the instant that the rotation named.
  add column previous_digest bytea unique,
  add column previous_until timestamptz;
update environment_keys set created_at = date_trunc('milliseconds', created_at);
create index environment_keys_listed on environment_keys (environment_id, created_at desc, id desc);

-- Not every record is of a session: an operator makes workspaces and keys too.
alter table audit_records alter column session_id drop not null;
alter table audit_records
  add column subject text,
  add constraint audit_records_of_something check (session_id is not null or subject is not null);
