/** Sections 0 and 1.1, DESIGN 4 (admission) and 7: what holds on every route. */
export const TRANSPORT = [
  { id: "transport:key:x-api-key", section: "0, 1.1", says: "the key is taken from X-Api-Key (0.x)" },
  { id: "transport:key:bearer", section: "0, 1.1", says: "the key is taken from Authorization: Bearer (1.x)" },
  { id: "transport:key:both", section: "1.1", says: "a request with both headers is a 401" },
  {
    id: "transport:key:none",
    section: "1.1",
    says: "no key, an unknown key or a revoked key is a 401 authentication_error",
  },
  {
    id: "transport:version:any",
    section: "0, 1.1",
    says: "no anthropic-version is insisted on, nor an anthropic-beta",
  },
  {
    id: "transport:workspace:match",
    section: "1.1",
    says: "anthropic-workspace-id of the key's own workspace is accepted",
  },
  {
    id: "transport:workspace:mismatch",
    section: "1.1",
    says: "anthropic-workspace-id of another workspace is rejected",
  },
  { id: "transport:query:beta", section: "0, 1.1", says: "?beta=true is accepted on every route" },
  { id: "transport:query:unknown", section: "1.1, DESIGN 7", says: "unknown query parameters are ignored" },
  { id: "transport:query:arrays", section: "0, 1.1", says: "arrays arrive as name[]=, one or several" },
  {
    id: "transport:query:bad-value",
    section: "DESIGN 7",
    says: "a bad value of a known parameter is a 400 that names it",
  },
  {
    id: "transport:body:unknown-fields",
    section: "DESIGN 7",
    says: "unknown body fields are refused at every level, by name",
  },
  { id: "transport:body:malformed", section: "1.1", says: "a body that is not JSON is a 400 in the envelope" },
  {
    id: "transport:body:not-an-object",
    section: "1.1",
    says: "a JSON body that is no object, or none at all, is a 400",
  },
  {
    id: "transport:body:content-type",
    section: "1.1",
    says: "a body under another content type is never taken for an empty one",
  },
  { id: "transport:body:bodyless-post", section: "1.1", says: "POSTs without a body need no content type" },
  {
    id: "transport:body:text",
    section: "1.1",
    says: "any Unicode text is kept; what cannot be kept is a 400, never a 500",
  },
  { id: "transport:body:too-large", section: "1.1", says: "a body over 32 MB is a 413 request_too_large" },
  {
    id: "transport:path:encoding",
    section: "1.1",
    says: "path parameters are percent-decoded; a broken escape is a 4xx",
  },
  {
    id: "transport:path:foreign-id",
    section: "1.1",
    says: "an id of another kind, or of nothing, is a 404 not_found_error",
  },
  { id: "transport:answer:json", section: "1.1", says: "answers carry a JSON content type, whatever Accept says" },
  {
    id: "transport:answer:request-id",
    section: "1.1, DESIGN 7",
    says: "every answer has a request-id header, fresh each time",
  },
  {
    id: "transport:answer:id-prefixes",
    section: "1.1",
    says: "ids carry their prefix: agent_, env_, sesn_, sevt_, sthr_, req_",
  },
  {
    id: "transport:error:envelope",
    section: "1.1",
    says: "errors are {type:error, error:{type, message}, request_id}, the id as in the header",
  },
  {
    id: "transport:error:unknown-route",
    section: "1.1",
    says: "an unknown route or method is a 404 (or 405) in the envelope",
  },
  { id: "transport:error:names-field", section: "DESIGN 7", says: "a 400 names the field that is wrong" },
  {
    id: "transport:error:no-retry-on-409",
    section: "0, 1.1, DESIGN 7",
    says: "semantic 409s are conflict_error with x-should-retry: false",
  },
  {
    id: "transport:page:bad-cursor",
    section: "1.1, DESIGN 7",
    says: "a cursor that we did not give, or gave for another list, is a 400",
  },
  {
    id: "transport:operations",
    section: "DESIGN 7",
    says: "/healthz, /readyz and /openapi.json (3.1) answer without a key",
  },
] as const;

export const IDEMPOTENCY = [
  {
    id: "idempotency:same-answer",
    section: "scope, DESIGN 4",
    says: "same key and body: the first answer again, nothing created twice",
  },
  {
    id: "idempotency:other-body",
    section: "scope",
    says: "same key and another body is a 409 that does not ask to be repeated",
  },
  {
    id: "idempotency:concurrent",
    section: "scope",
    says: "concurrent doubles create one; all that succeed tell the same",
  },
  {
    id: "idempotency:failure-forgotten",
    section: "scope",
    says: "a refused first request leaves nothing: the key is free",
  },
  {
    id: "idempotency:frozen",
    section: "scope",
    says: "the repeat is the first answer, even when the resource has changed since",
  },
  { id: "idempotency:workspaces", section: "DESIGN 3", says: "keys of one workspace mean nothing in another" },
  { id: "idempotency:restart", section: "scope", says: "a repeat after a restart still gets the first answer" },
  { id: "idempotency:length", section: "scope", says: "a key over 255 characters, or an empty one, is a 400" },
  { id: "idempotency:sdk", section: "scope", says: "both SDKs pass a key through per-request headers" },
] as const;

export const TENANCY = [
  {
    id: "tenancy:foreign-id",
    section: "DESIGN 3",
    says: "another workspace's id is a 404 on every route, or an empty list",
  },
  { id: "tenancy:references", section: "DESIGN 3", says: "a body may not refer to another workspace's things: 404" },
  { id: "tenancy:lists", section: "DESIGN 3", says: "lists hold only one's own" },
  {
    id: "tenancy:key-kinds",
    section: "3.3, DESIGN 6",
    says: "each kind of key may do what the table says, on every route",
  },
  {
    id: "tenancy:dead-keys",
    section: "3.3, DESIGN 6",
    says: "a key or token that was never made, or has ended, is a 401 on every route",
  },
  { id: "tenancy:complete", section: "scope", says: "the table names every route of the OpenAPI document" },
] as const;

export const ROBUSTNESS = [
  {
    id: "robustness:any-json",
    section: "scope",
    says: "any JSON to any POST: never a 5xx, an envelope from 400 on, no partial write",
  },
  { id: "robustness:mutated", section: "scope", says: "valid bodies with one thing changed: the same" },
  {
    id: "robustness:document",
    section: "scope",
    says: "a body that the server accepts is one that its document allows",
  },
  { id: "robustness:query", section: "scope", says: "any query on any GET: never a 5xx, an envelope from 400 on" },
] as const;

export const CLIENTS = [
  { id: "sdk:agents", section: "1.2", says: "both SDKs: agents and versions created, read, updated, paged, archived" },
  {
    id: "sdk:environments",
    section: "1.4",
    says: "both SDKs: environments created, read, updated, paged, archived, deleted",
  },
  { id: "sdk:sessions", section: "1.3", says: "both SDKs: sessions in three forms, read, updated, archived, deleted" },
  { id: "sdk:sessions:pages", section: "1.1, 1.3", says: "both SDKs: the session list in both directions" },
  { id: "sdk:events", section: "2", says: "both SDKs: events sent, listed over pages, filtered by arrays" },
  { id: "sdk:stream", section: "2.8", says: "both SDKs: a turn on the stream, ending with session.status_idle" },
  { id: "sdk:stream:deltas", section: "2.9", says: "both SDKs: deltas concatenate to the message of the same id" },
  {
    id: "sdk:stream:reconcile",
    section: "2.8",
    says: "both SDKs: after a cut, stream plus history by id gives every event once",
  },
  { id: "sdk:threads", section: "1.3", says: "both SDKs: threads listed, read, their events listed and streamed" },
  { id: "sdk:tools", section: "9.5", says: "both SDKs: an asking call confirmed and answered, a custom call answered" },
  { id: "sdk:errors", section: "1.1", says: "both SDKs: error classes per status, no repeats of semantic conflicts" },
] as const;
