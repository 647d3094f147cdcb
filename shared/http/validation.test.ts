import { expect, test } from "vitest";
import { CreateAgent } from "../contract/agents.ts";
import { SendEvents } from "../contract/client-events.ts";
import { CreateSession } from "../contract/sessions.ts";
import { validationError } from "./validation.ts";

function problem(
  schema: typeof CreateAgent | typeof SendEvents | typeof CreateSession,
  body: unknown,
): [number, string] {
  const result = schema.safeParse(body);
  if (result.success) {
    throw new Error("The body was accepted.");
  }
  const error = validationError(result.error);
  return [error.status, error.message];
}

const message = (block: unknown) => ({ events: [{ type: "user.message", content: [block] }] });

test.each([
  ["a missing field", CreateAgent, { model: "m" }, 400, "name: is required."],
  ["a wrong type", CreateAgent, { name: 1, model: "m" }, 400, "name: invalid input: expected string, received number."],
  ["an unknown field", CreateAgent, { name: "a", model: "m", nme: 1 }, 400, "nme: unknown field."],
  [
    "an unknown field deep within",
    SendEvents,
    message({ type: "text", text: "a", bold: true }),
    400,
    "events[0].content[0].bold: unknown field.",
  ],
  [
    "an unknown field of a union's object",
    CreateAgent,
    { name: "a", model: { id: "m", tone: 1 } },
    400,
    "model.tone: unknown field.",
  ],
  [
    "an event that only the server writes",
    SendEvents,
    { events: [{ type: "agent.message", content: [] }] },
    400,
    "events[0].type: is not one of the accepted types.",
  ],
  ["no event at all", SendEvents, { events: [] }, 400, "events: too small: expected array to have >=1 items."],
  [
    "an empty text",
    SendEvents,
    message({ type: "text", text: "" }),
    400,
    "events[0].content[0].text: too small: expected string to have >=1 characters.",
  ],
  [
    "a feature to come",
    CreateAgent,
    { name: "a", model: "m", skills: [{}] },
    422,
    "skills: skills are not supported by this server yet.",
  ],
  [
    "a feature in a session",
    CreateSession,
    { agent: "a", environment_id: "e", vault_ids: ["v"] },
    422,
    "vault_ids: vaults are not supported by this server yet.",
  ],
])("%s is named", (_case, schema, body, status, text) => {
  expect(problem(schema, body)).toEqual([status, text]);
});

test("fields of features to come are accepted when they are empty", () => {
  expect(
    CreateAgent.safeParse({ name: "a", model: "m", skills: [], multiagent: null, execution_identity: null }).success,
  ).toBe(true);
  expect(
    CreateSession.safeParse({ agent: "a", environment_id: "e", vault_ids: [], resources: [], budget: null }).success,
  ).toBe(true);
});
