-- The session that an answer is of: it says what the session was told, and goes with it.

alter table idempotency_keys add column session_id text;
create index idempotency_keys_session on idempotency_keys (session_id) where session_id is not null;
