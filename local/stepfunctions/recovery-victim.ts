/** Runs a Step Functions that the recovery test kills. Its machine is in `recovery-machine.ts`. */

import { SFNClient, StartExecutionCommand } from "@aws-sdk/client-sfn";
import { createStepFunctionsPool } from "./pool.ts";
import { RECOVERY_DEFINITION, RECOVERY_KINDS } from "./recovery-machine.ts";
import { StepFunctions } from "./step-functions.ts";

const [, , connectionString = ""] = process.argv;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

const stepFunctions = new StepFunctions({
  pool: createStepFunctionsPool(connectionString),
  stateMachines: [{ name: "machine", definition: RECOVERY_DEFINITION }],
  log: silent,
  async invoke(name, payload) {
    process.stdout.write(`${JSON.stringify({ name, payload })}\n`);
    if (name === "hang") await new Promise(() => undefined);
    if (name === "flaky") throw new Error("the first time");
    return payload;
  },
});
await stepFunctions.start();
const client = new SFNClient(stepFunctions.clientConfiguration);
for (const kind of RECOVERY_KINDS) {
  const stateMachineArn = stepFunctions.stateMachineArn("machine");
  await client.send(new StartExecutionCommand({ stateMachineArn, name: kind, input: JSON.stringify({ kind }) }));
}
