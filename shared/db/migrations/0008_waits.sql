-- When the provider may be asked again after a refusal: kept, so that whoever takes the turn over waits as long.
alter table turns add column retry_at timestamptz;

-- How often a server-side call was handed to RunTools without coming to a result.
alter table tool_steps add column passes integer not null default 0;

-- Somebody works on the turn until then although no provider call of it is under way: its calls are being judged.
alter table turns add column busy_until timestamptz;

-- Deletions look the other way along these.
create index pending_actions_step on pending_actions (step_id);
create index pending_actions_turn on pending_actions (turn_id);
