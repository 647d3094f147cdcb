import path from "node:path";
import { type CfnElement, CustomResource, Duration, FileSystem, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as logs from "aws-cdk-lib/aws-logs";
import type { IQueue } from "aws-cdk-lib/aws-sqs";
import { Provider } from "aws-cdk-lib/custom-resources";
import { Construct } from "constructs";
import { accept, managedPolicy } from "./accepted-findings.ts";
import type { DataStack } from "./data-stack.ts";
import { Handler, LAMBDA_AUTHORITIES } from "./handler.ts";
import { grant } from "./rights.ts";
import type { Settings } from "./settings.ts";

export interface MigrationProps {
  readonly bundles: string;
  readonly data: DataStack;
  readonly settings: Settings;
  readonly stateMachineArn: string;
  readonly executionsArn: string;
  readonly relayQueue: IQueue;
}

/** Brings the schema to the newest state once for each release that changes it; every function waits for it. */
export class Migration extends Construct {
  readonly resource: CustomResource;

  constructor(scope: Construct, id: string, props: MigrationProps) {
    super(scope, id);
    const { bundles, data } = props;
    const migrator = new Handler(this, "Migrate", {
      bundles,
      stage: props.settings.stage,
      bundle: "migrate",
      description: "Changes the schema",
      network: { vpc: data.network.vpc, securityGroup: data.network.migrator },
      timeout: Duration.minutes(14),
      memorySize: 512,
      environment: {
        ...data.database.writerVariables,
        MANGO_DATABASE_SECRET_ARN: data.database.ownerSecret.secretArn,
        NODE_EXTRA_CA_CERTS: LAMBDA_AUTHORITIES,
      },
    });
    grant(migrator, "own-schema", props);
    const provider = new Provider(this, "Provider", {
      onEventHandler: migrator.function,
      logGroup: new logs.LogGroup(this, "ProviderLog", {
        retention: logs.RetentionDays.ONE_MONTH,
        removalPolicy: RemovalPolicy.DESTROY,
      }),
    });
    this.resource = new CustomResource(this, "Schema", {
      serviceToken: provider.serviceToken,
      // A release that changes the migrator or a migration runs it again.
      properties: { release: FileSystem.fingerprint(path.join(bundles, "migrate")) },
    });
    const invoked = Stack.of(this).getLogicalId(migrator.function.node.defaultChild as CfnElement);
    accept(
      provider,
      `AwsSolutions-IAM4[${managedPolicy("AWSLambdaBasicExecutionRole")}]`,
      "The CDK's own function, which runs during deployments only.",
    );
    accept(
      provider,
      `AwsSolutions-IAM5[Resource::<${invoked}.Arn>:*]`,
      "The CDK's own function: it may invoke any version of the migrator.",
    );
  }
}
