-- Workspaces and the keys that open them. Everything below is scoped to a workspace.

create table workspaces (
  id text primary key,
  name text not null,
  created_at timestamptz not null default now()
);

-- Keys are kept as SHA-256 digests: whoever reads this table can open nothing.
create table api_keys (
  id text primary key,
  workspace_id text not null references workspaces (id),
  name text not null,
  digest bytea not null unique,
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);

-- Refuses every UPDATE, DELETE and TRUNCATE on a table that only ever grows.
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% on % is refused: the table is append-only', tg_op, tg_table_name
    using errcode = 'restrict_violation';
end
$$;
