import { CfnOutput, Stack, type StackProps } from "aws-cdk-lib";
import type { Construct } from "constructs";
import { Api } from "./api.ts";
import type { DataStack } from "./data-stack.ts";
import { Functions } from "./functions.ts";
import { Migration } from "./migration.ts";
import { Operations } from "./operations.ts";
import { executionsArn, Orchestration, stateMachineArn } from "./orchestration.ts";
import { RelayQueue } from "./relay-queue.ts";
import type { Settings } from "./settings.ts";

export interface ServiceStackProps extends StackProps {
  readonly settings: Settings;
  readonly data: DataStack;
  /** The folder that `bundles.ts` has built. */
  readonly bundles: string;
}

/** One release: everything that can be made again. */
export class ServiceStack extends Stack {
  constructor(scope: Construct, id: string, props: ServiceStackProps) {
    super(scope, id, props);
    const { settings, data, bundles } = props;
    const { stage } = settings;
    const shared = {
      bundles,
      data,
      settings,
      stateMachineArn: stateMachineArn(this, stage),
      executionsArn: executionsArn(this, stage),
      relayQueue: new RelayQueue(this, "RelayQueue").queue,
    };

    const migration = new Migration(this, "Migration", shared);
    const functions = new Functions(this, "Functions", shared);
    // No new code before its tables; the migrator is not among them.
    functions.node.addDependency(migration.resource);

    const { stateMachine } = new Orchestration(this, "Orchestration", {
      functions,
      stage,
      relayQueue: shared.relayQueue,
    });
    const { api, domain } = new Api(this, "Api", { functions, settings });
    new Operations(this, "Operations", { data, functions, api, stateMachine, settings });

    new CfnOutput(this, "Url", {
      value: settings.domainName === undefined ? api.url : `https://${settings.domainName}`,
      description: "Base URL for clients",
    });
    if (domain !== undefined) {
      new CfnOutput(this, "DomainTarget", {
        value: domain.domainNameAliasDomainName,
        description: "Point the domain's name here: a CNAME, or an alias record in Route 53",
      });
    }
    new CfnOutput(this, "OperatorFunction", {
      value: functions.operator.function.functionName,
      description: "For npm run mango -- --function …: workspaces and keys",
    });
    new CfnOutput(this, "ModelSecret", {
      value: data.modelSecret.secretName,
      description: "Put the model's API key here: aws secretsmanager put-secret-value --secret-id … --secret-string …",
    });
  }
}
