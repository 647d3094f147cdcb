import type { JsonSchema } from "./requests.ts";

/** The input for a tool that the user named: the JSON they gave in backticks, else a value for each required field. */
export function plausibleInput(clause: string, schema: JsonSchema): unknown {
  for (const [, code = ""] of clause.matchAll(/`([^`]+)`/g)) {
    const given = parseObject(code);
    if (given !== null) return given;
  }
  return objectFor(schema);
}

function parseObject(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function objectFor(schema: JsonSchema): unknown {
  const required = schema.required ?? [];
  return Object.fromEntries(required.map((name) => [name, valueFor(schema.properties?.[name] ?? {})]));
}

function valueFor(schema: JsonSchema): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.enum?.length) return schema.enum[0];
  const type: unknown = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "number":
    case "integer":
      return 1;
    case "boolean":
      return true;
    case "array":
      return [];
    case "null":
      return null;
    case "object":
      return objectFor(schema);
    default:
      return "example";
  }
}
