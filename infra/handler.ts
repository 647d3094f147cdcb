import path from "node:path";
import { type Duration, RemovalPolicy } from "aws-cdk-lib";
import type * as ec2 from "aws-cdk-lib/aws-ec2";
import * as iam from "aws-cdk-lib/aws-iam";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";
import type { FunctionName } from "./bundles.ts";

/** Where our own metrics are. */
export const METRICS_NAMESPACE = "Mango";
/** RDS's own authority, which Lambda keeps in this file and Node does not know. */
export const LAMBDA_AUTHORITIES = "/var/runtime/ca-cert.pem";

export interface HandlerProps {
  /** In every log line and metric, as `service`. */
  readonly stage: string;
  /** The folder that holds the bundles. */
  readonly bundles: string;
  readonly bundle: FunctionName;
  readonly description: string;
  /** Where it stands; without one it is outside, where nothing of ours can be reached. */
  readonly network?: { readonly vpc: ec2.IVpc; readonly securityGroup: ec2.ISecurityGroup };
  readonly timeout: Duration;
  readonly memorySize: number;
  readonly environment: Readonly<Record<string, string>>;
  /** Sets so many environments aside, and allows no more. */
  readonly reservedConcurrency?: number;
}

/**
 * One Lambda function with a log group and a role of its own. The role starts with nothing but what Lambda itself needs
 * for it (AWS's managed policies would let it write to every log group); what it may do is added by `rights.ts`.
 */
export class Handler extends Construct {
  readonly function: lambda.Function;
  readonly role: iam.Role;

  constructor(scope: Construct, id: string, props: HandlerProps) {
    super(scope, id);
    const logGroup = new logs.LogGroup(this, "Log", {
      retention: logs.RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    this.role = new iam.Role(this, "Role", { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
    this.role.addToPolicy(
      new iam.PolicyStatement({
        actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
        resources: [logGroup.logGroupArn],
      }),
    );
    if (props.network !== undefined) {
      this.role.addToPolicy(
        new iam.PolicyStatement({
          actions: [
            "ec2:AssignPrivateIpAddresses",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:UnassignPrivateIpAddresses",
          ],
          resources: ["*"],
        }),
      );
    }
    this.function = new lambda.Function(this, "Function", {
      description: props.description,
      code: lambda.Code.fromAsset(path.join(props.bundles, props.bundle)),
      handler: "index.handler",
      runtime: lambda.Runtime.NODEJS_24_X,
      architecture: lambda.Architecture.ARM_64,
      role: this.role,
      logGroup,
      tracing: lambda.Tracing.ACTIVE,
      ...(props.network !== undefined && {
        vpc: props.network.vpc,
        vpcSubnets: { subnetGroupName: "functions" },
        securityGroups: [props.network.securityGroup],
      }),
      timeout: props.timeout,
      memorySize: props.memorySize,
      environment: {
        NODE_OPTIONS: "--enable-source-maps",
        POWERTOOLS_SERVICE_NAME: `mango-${props.stage}`,
        POWERTOOLS_METRICS_NAMESPACE: METRICS_NAMESPACE,
        ...props.environment,
      },
      ...(props.reservedConcurrency !== undefined && { reservedConcurrentExecutions: props.reservedConcurrency }),
    });
    accept(
      this.role,
      "AwsSolutions-IAM5[Resource::*]",
      "Network interfaces and trace segments have no ARN before they exist.",
    );
  }
}
