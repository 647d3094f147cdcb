-- When the provider may be asked again after a refusal: kept, so that whoever takes the turn over waits as long.
alter table turns add column retry_at timestamptz;

-- How often a server-side call was handed to RunTools without coming to a result.
alter table tool_steps add column passes integer not null default 0;
