/**
 * Reads one object of a definition field by field.
 *
 * What nobody read when `done` is called is not implemented, and refuses the definition: a field that the interpreter
 * ignored would make a local run prove nothing about AWS.
 */

import { DefinitionError } from "./definition-error.ts";
import { Expression, expressionSource } from "./expression.ts";
import { isJsonObject, type Json } from "./json.ts";
import { compileTemplate, type Template } from "./template.ts";

interface NumberRange {
  readonly minimum: number;
  readonly maximum: number;
  readonly integer?: boolean;
}

export class Fields {
  readonly path: string;
  readonly #values: { readonly [name: string]: Json };
  readonly #read = new Set<string>();
  /** Where the fields of the state begin in `path`, for the names that failure messages use. */
  readonly #statePath: string;

  constructor(value: unknown, path: string, statePath = path) {
    if (!isJsonObject(value)) throw new DefinitionError(path, "must be an object");
    this.#values = value;
    this.path = path;
    this.#statePath = statePath;
  }

  at(name: string): string {
    return `${this.path}/${name}`;
  }

  refuse(name: string, problem: string): DefinitionError {
    return new DefinitionError(this.at(name), problem);
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#values, name);
  }

  names(): string[] {
    return Object.keys(this.#values);
  }

  optional(name: string): Json | undefined {
    this.#read.add(name);
    return Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
  }

  required(name: string): Json {
    const value = this.optional(name);
    if (value === undefined) throw new DefinitionError(this.path, `field "${name}" is missing`);
    return value;
  }

  string(name: string): string {
    const value = this.required(name);
    if (typeof value !== "string") throw this.refuse(name, "must be a string");
    return value;
  }

  oneOf<T extends string>(name: string, allowed: readonly T[], absent?: T): T {
    const value = absent === undefined || this.has(name) ? this.string(name) : absent;
    const match = allowed.find((candidate) => candidate === value);
    if (match === undefined) throw this.refuse(name, `"${value}" is not supported; use ${allowed.join(" or ")}`);
    return match;
  }

  list(name: string): readonly Json[] {
    const value = this.required(name);
    if (!Array.isArray(value) || value.length === 0) throw this.refuse(name, "must be a non-empty array");
    return value;
  }

  number(name: string, range: NumberRange, absent: number): number {
    const value = this.optional(name) ?? absent;
    if (typeof value !== "number" || !inRange(value, range)) throw this.refuse(name, describeRange(range));
    return value;
  }

  numberOrExpression(name: string, range: NumberRange): number | Expression | null {
    const value = this.optional(name);
    if (value === undefined) return null;
    return typeof value === "string" ? this.#expression(name, value) : this.number(name, range, 0);
  }

  stringOrExpression(name: string): string | Expression | null {
    if (!this.has(name)) return null;
    const value = this.string(name);
    const source = expressionSource(value, this.at(name));
    return source === null ? value : this.#expression(name, value);
  }

  booleanOrExpression(name: string): boolean | Expression {
    const value = this.required(name);
    if (typeof value === "boolean") return value;
    if (typeof value !== "string") throw this.refuse(name, "must be a boolean or a JSONata string");
    return this.#expression(name, value);
  }

  template(name: string): Template | null {
    const value = this.optional(name);
    return value === undefined ? null : compileTemplate(value, this.#field(name), this.at(name));
  }

  child(name: string): Fields {
    return new Fields(this.required(name), this.at(name), this.#statePath);
  }

  children(name: string): Fields[] {
    return this.list(name).map((value, index) => new Fields(value, `${this.at(name)}/${index}`, this.#statePath));
  }

  /** Comment may stand in every object and says nothing to the interpreter. */
  done(): void {
    if (typeof (this.optional("Comment") ?? "") !== "string") throw this.refuse("Comment", "must be a string");
    const unknown = this.names().find((name) => !this.#read.has(name));
    if (unknown !== undefined) throw this.refuse(unknown, `field "${unknown}" is not supported`);
  }

  #field(name: string): string {
    return this.at(name).slice(this.#statePath.length + 1);
  }

  #expression(name: string, text: string): Expression {
    const source = expressionSource(text, this.at(name));
    if (source === null) throw this.refuse(name, "must be a JSONata string");
    return new Expression(source, this.#field(name), this.at(name));
  }
}

function inRange(value: number, range: NumberRange): boolean {
  return value >= range.minimum && value <= range.maximum && (range.integer === false || Number.isInteger(value));
}

function describeRange(range: NumberRange): string {
  const kind = range.integer === false ? "a number" : "an integer";
  return `must be ${kind} from ${range.minimum} to ${range.maximum}`;
}
