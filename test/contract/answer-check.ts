import type { ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { documentOfSource } from "./document.ts";

interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: unknown }>> }>
  >;
}

const document = JSON.parse(documentOfSource()) as { paths: Record<string, Record<string, Operation>> };
const ajv = new Ajv2020({ strict: false, allErrors: false });
(addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
ajv.addSchema(document, "openapi");

const routes = Object.entries(document.paths).map(([template, operations]) => ({
  template,
  operations,
  pattern: new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, "[^/]+")}$`),
}));
const compiled = new Map<string, ValidateFunction>();

/**
 * Checks an answer against the OpenAPI document: the route, the status and the body must be documented just so. Throws
 * with the first difference. Routes outside /v1 are not part of the document.
 */
export async function checkAnswer(method: string, url: string, response: Response): Promise<void> {
  const { pathname } = new URL(url);
  const route = routes.find((candidate) => candidate.pattern.test(pathname));
  const operation = route?.operations[method.toLowerCase()];
  if (route === undefined || operation === undefined) {
    return;
  }
  const where = `${method} ${route.template} → ${response.status}`;
  const documented = operation.responses[String(response.status)];
  if (documented === undefined) {
    throw new Error(`${where}: this status is not in the OpenAPI document.`);
  }
  const type = (response.headers.get("content-type") ?? "").split(";")[0] ?? "";
  const schema = documented.content?.[type]?.schema;
  if (schema === undefined) {
    throw new Error(`${where}: the content type ${type} is not in the OpenAPI document.`);
  }
  if (type !== "application/json") {
    return;
  }
  const validate = compiled.get(where) ?? ajv.compile(absolute(schema));
  compiled.set(where, validate);
  const body: unknown = await response.clone().json();
  if (!validate(body)) {
    throw new Error(
      `${where}: the answer is not as documented: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(body).slice(0, 2000)}`,
    );
  }
}

/** The schema with its references made absolute, so that it compiles on its own. */
function absolute(schema: unknown): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"openapi#/')) as object;
}

/** `fetch` that checks every answer. */
export const checkedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  const request = input instanceof Request ? input : undefined;
  await checkAnswer(init?.method ?? request?.method ?? "GET", request?.url ?? String(input), response);
  return response;
};
