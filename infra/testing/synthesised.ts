import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { App } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import { FUNCTIONS } from "../bundles.ts";
import { mango } from "../mango.ts";

interface Resource {
  readonly Type: string;
  // biome-ignore lint/suspicious/noExplicitAny: templates are JSON without a schema
  readonly Properties: any;
  readonly DependsOn?: string | string[];
  readonly DeletionPolicy?: string;
}

export type Resources = Record<string, Resource>;

/** Both stacks' resources, from the very app; the bundles are empty, because nothing here looks into them. */
export function synthesise(settings: Record<string, unknown> = {}): { data: Resources; service: Resources } {
  const directory = mkdtempSync(path.join(tmpdir(), "mango-synth-"));
  try {
    for (const name of FUNCTIONS) {
      mkdirSync(path.join(directory, "dist", name), { recursive: true });
      writeFileSync(path.join(directory, "dist", name, "index.js"), `// ${name}`);
    }
    const cdk = JSON.parse(readFileSync(new URL("../../cdk.json", import.meta.url), "utf8")) as { context: object };
    const app = new App({ outdir: path.join(directory, "out"), context: { ...cdk.context, ...settings } });
    const { data, service } = mango(app, { bundles: path.join(directory, "dist") });
    // Throws for a finding of cdk-nag that nobody has accepted, and for a circle of dependencies.
    app.synth();
    return {
      data: Template.fromStack(data).toJSON()["Resources"],
      service: Template.fromStack(service).toJSON()["Resources"],
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export function ofType(resources: Resources, type: string): [id: string, resource: Resource][] {
  return Object.entries(resources).filter(([, resource]) => resource.Type === type);
}

/** The functions of the product by the name in their path: `CallModel`, `Api`. The CDK's own are left out. */
export function ourFunctions(resources: Resources): Record<string, Resource & { readonly id: string }> {
  return Object.fromEntries(
    ofType(resources, "AWS::Lambda::Function")
      .filter(([id]) => !id.includes("Provider"))
      .map(([id, resource]) => [/^(?:Functions|Migration)(\w+?)Function/.exec(id)?.[1] ?? id, { ...resource, id }]),
  );
}

/** The statements that a function's role has. */
export function statements(
  resources: Resources,
  fn: Resource,
): { readonly Action: string | string[]; readonly Resource: unknown; readonly Condition?: unknown }[] {
  const role: string = fn.Properties.Role["Fn::GetAtt"][0];
  return ofType(resources, "AWS::IAM::Policy")
    .filter(([, { Properties }]) => Properties.Roles.some((it: { Ref: string }) => it.Ref === role))
    .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement);
}

export function actions(statement: { readonly Action: string | string[] }): string[] {
  return [statement.Action].flat();
}
