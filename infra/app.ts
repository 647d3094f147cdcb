/** What `cdk synth` and `cdk deploy` run, from cdk.json. */
import path from "node:path";
import { App } from "aws-cdk-lib";
import { buildBundles } from "./bundles.ts";
import { mango } from "./mango.ts";
import { SettingsError } from "./settings.ts";

const app = new App();
// Beside the templates, so that two runs at once do not take each other's.
const bundles = path.join(app.outdir, "bundles");
try {
  await buildBundles(bundles);
  mango(app, { bundles });
  app.synth();
} catch (error) {
  if (!(error instanceof SettingsError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
