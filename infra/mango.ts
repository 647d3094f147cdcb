import { type App, Tags, Validations } from "aws-cdk-lib";
import { AwsSolutionsChecks } from "cdk-nag";
import { DataStack } from "./data-stack.ts";
import { ServiceStack } from "./service-stack.ts";
import { readSettings } from "./settings.ts";

export interface Mango {
  readonly data: DataStack;
  readonly service: ServiceStack;
}

/**
 * The composition root: what lasts, what a release replaces, and the checks on both. No account and no region is
 * named, so that one build fits every account.
 */
export function mango(app: App, options: { readonly bundles: string }): Mango {
  const settings = readSettings(app.node.getAllContext());
  const data = new DataStack(app, `mango-${settings.stage}-data`, { settings, description: "Mango: what lasts" });
  const service = new ServiceStack(app, `mango-${settings.stage}`, {
    settings,
    data,
    bundles: options.bundles,
    description: "Mango: one release",
  });
  Tags.of(app).add("mango:stage", settings.stage);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return { data, service };
}
