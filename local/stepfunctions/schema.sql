-- Executions of the embedded Step Functions. Idempotent: run at every start.
create schema if not exists stepfunctions;

-- A running execution keeps the definition it was started with, whatever the next release brings.
create table if not exists stepfunctions.definitions (
  digest text primary key,
  definition text not null
);

create table if not exists stepfunctions.executions (
  arn text primary key,
  state_machine text not null,
  name text not null,
  -- Digest of the definition. No foreign key: it would lock the definition's row at every start.
  definition text not null,
  -- The process that drives the execution. A process that lost it writes nothing any more.
  owner uuid not null,
  status text not null check (status in ('RUNNING', 'SUCCEEDED', 'FAILED', 'ABORTED')),
  input text not null,
  -- Null before the first write and after the end.
  position text,
  output text,
  error text,
  cause text,
  history_events integer not null,
  states_entered integer not null,
  start_date timestamptz not null,
  stop_date timestamptz
) with (fillfactor = 70); -- room for updates on the same page: no index changes while an execution runs

create index if not exists executions_running on stepfunctions.executions (start_date) where status = 'RUNNING';

-- Signs task tokens.
create table if not exists stepfunctions.token_key (
  only_row boolean primary key default true check (only_row),
  key bytea not null
);

-- Names may be used again after 90 days, as on AWS.
delete from stepfunctions.executions where stop_date < now() - interval '90 days';
