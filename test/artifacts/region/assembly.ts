/** What `cdk synth` leaves for a deployment: the templates, read as CloudFormation reads them, and the bundles. */
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ACCOUNT, PARTITION, REGION } from "./names.ts";

const LAUNCH = fileURLToPath(new URL("../../../local/launch.mjs", import.meta.url));

export interface Resource {
  readonly id: string;
  readonly Type: string;
  // biome-ignore lint/suspicious/noExplicitAny: templates are JSON without a schema
  readonly Properties: any;
  readonly Metadata?: Readonly<Record<string, string>>;
}

interface Stack {
  readonly Resources: Readonly<Record<string, Omit<Resource, "id">>>;
  readonly Outputs?: Readonly<Record<string, { readonly Value: unknown; readonly Export?: { readonly Name: string } }>>;
}

/** What a resource is called once it exists: `attribute` is empty for a `Ref`. Undefined for what does not exist here. */
export type Existing = (resource: Resource, attribute: string) => string | undefined;

export class Assembly {
  readonly directory: string;
  readonly resources: readonly Resource[];
  readonly #stacks: readonly Stack[];

  private constructor(directory: string, stacks: readonly Stack[]) {
    this.directory = directory;
    this.#stacks = stacks;
    this.resources = stacks.flatMap((stack) =>
      Object.entries(stack.Resources).map(([id, resource]) => ({ id, ...resource })),
    );
  }

  /** Runs the very command that an operator runs, bundling included. */
  static async synthesise(directory: string, context: Readonly<Record<string, string>>): Promise<Assembly> {
    const settings = Object.entries(context).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    await promisify(execFile)(process.execPath, [
      LAUNCH,
      "--bin",
      "cdk",
      "synth",
      "--quiet",
      "--output",
      directory,
      ...settings,
    ]);
    const templates = (await readdir(directory)).filter((file) => file.endsWith(".template.json"));
    const stacks = templates.map(async (file) => JSON.parse(await readFile(path.join(directory, file), "utf8")));
    return new Assembly(directory, (await Promise.all(stacks)) as Stack[]);
  }

  ofType(type: string): Resource[] {
    return this.resources.filter((resource) => resource.Type === type);
  }

  /** @throws Error for a reference to something that does not exist. */
  resolve(value: unknown, existing: Existing): unknown {
    const resolve = (it: unknown): unknown => this.resolve(it, existing);
    if (Array.isArray(value)) {
      return value.map(resolve);
    }
    if (typeof value !== "object" || value === null) {
      return value;
    }
    const entries = Object.entries(value);
    const [name, argument] = entries[0] ?? [];
    if (entries.length !== 1 || (name !== "Ref" && !name?.startsWith("Fn::"))) {
      return Object.fromEntries(entries.map(([key, it]) => [key, resolve(it)]));
    }
    switch (name) {
      case "Ref":
        return this.#reference(argument, "", existing);
      case "Fn::GetAtt":
        return this.#reference(argument[0], argument[1], existing);
      case "Fn::Join":
        return (resolve(argument[1]) as unknown[]).join(argument[0]);
      case "Fn::ImportValue":
        return resolve(this.#exported(argument));
      default:
        throw new Error(`${name} is not known here.`);
    }
  }

  #exported(name: string): unknown {
    const outputs = this.#stacks.flatMap((stack) => Object.values(stack.Outputs ?? {}));
    const output = outputs.find(({ Export }) => Export?.Name === name);
    if (output === undefined) {
      throw new Error(`No stack exports ${name}.`);
    }
    return output.Value;
  }

  #reference(id: string, attribute: string, existing: Existing): string {
    const pseudo = { "AWS::Partition": PARTITION, "AWS::Region": REGION, "AWS::AccountId": ACCOUNT }[id];
    const resource = this.resources.find((it) => it.id === id);
    const found = pseudo ?? (resource && existing(resource, attribute));
    if (found === undefined) {
      throw new Error(`${id} ${attribute} does not exist here.`);
    }
    return found;
  }
}
