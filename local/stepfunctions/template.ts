/** A JSON value of the definition whose strings may be JSONata: Arguments, Output, Assign, Items, ItemSelector. */

import { type EvaluationScope, Expression, expressionSource } from "./expression.ts";
import { isJsonObject, type Json } from "./json.ts";

export interface Template {
  evaluate(scope: EvaluationScope): Promise<Json>;
}

/** `field` names the value in failure messages, `path` in a refusal at load. */
export function compileTemplate(value: Json, field: string, path: string): Template {
  return compile(value, field, path) ?? { evaluate: async () => value };
}

/** Null when there is nothing to evaluate below this value. */
function compile(value: Json, field: string, path: string): Template | null {
  if (typeof value === "string") {
    const source = expressionSource(value, path);
    return source === null ? null : new Expression(source, field, path);
  }
  if (Array.isArray(value)) return compileArray(value, field, path);
  return isJsonObject(value) ? compileObject(value, field, path) : null;
}

function compileArray(values: readonly Json[], field: string, path: string): Template | null {
  const parts = values.map((value, index) => compile(value, `${field}[${index}]`, `${path}/${index}`));
  if (parts.every((part) => part === null)) return null;
  return {
    async evaluate(scope) {
      const result: Json[] = [];
      for (const [index, value] of values.entries()) {
        const part = parts[index];
        result.push(part ? await part.evaluate(scope) : value);
      }
      return result;
    },
  };
}

function compileObject(value: { readonly [key: string]: Json }, field: string, path: string): Template | null {
  const parts = Object.entries(value).map(
    ([key, child]) => [key, child, compile(child, `${field}/${key}`, `${path}/${key}`)] as const,
  );
  if (parts.every(([, , part]) => part === null)) return null;
  return {
    async evaluate(scope) {
      const result: Record<string, Json> = {};
      for (const [key, child, part] of parts) result[key] = part === null ? child : await part.evaluate(scope);
      return result;
    },
  };
}
