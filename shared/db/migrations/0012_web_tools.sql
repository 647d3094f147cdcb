-- Calls that the provider runs itself, and where a page that the server fetched came from.

-- Ids of server-tool calls whose other half, the call or its result, is not in this entry. An answer that is paused has
-- its result in a later entry of the turn; a half that stays alone would be refused by the provider for ever.
alter table transcript_entries add column half_server_calls text[] not null default '{}';

-- JSON text: what an executor noted of a call for the record (final address, redirects, digest). Never shown to clients.
alter table tool_steps add column provenance text;
