import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";

export interface NetworkProps {
  /** By default the region's first two. */
  readonly availabilityZones: readonly string[] | undefined;
  /** 0: the operator routes what leaves the functions' subnets. */
  readonly natGateways: number;
  /** Whether functions come to the database through a proxy. */
  readonly proxied: boolean;
}

/** Two zones: a public pair for the way out, a private pair for the functions, an isolated pair for the database. */
export class Network extends Construct {
  readonly vpc: ec2.IVpc;
  /** Of the functions: nothing comes in, HTTPS and the database go out. */
  readonly functions: ec2.SecurityGroup;
  /** Of the migrator, the only one that reaches the cluster itself. */
  readonly migrator: ec2.SecurityGroup;
  readonly proxy: ec2.SecurityGroup;
  readonly cluster: ec2.SecurityGroup;

  constructor(scope: Construct, id: string, props: NetworkProps) {
    super(scope, id);
    // The cast: the CDK's own types disagree under exactOptionalPropertyTypes.
    this.vpc = new ec2.Vpc(this, "Vpc", {
      ...(props.availabilityZones === undefined ? { maxAzs: 2 } : { availabilityZones: [...props.availabilityZones] }),
      natGateways: props.natGateways,
      subnetConfiguration: [
        { name: "public", subnetType: ec2.SubnetType.PUBLIC, mapPublicIpOnLaunch: false, cidrMask: 24 },
        {
          name: "functions",
          subnetType: props.natGateways > 0 ? ec2.SubnetType.PRIVATE_WITH_EGRESS : ec2.SubnetType.PRIVATE_ISOLATED,
          cidrMask: 20,
        },
        { name: "database", subnetType: ec2.SubnetType.PRIVATE_ISOLATED, cidrMask: 24 },
      ],
      // Free, and what goes through them does not pay the NAT.
      gatewayEndpoints: {
        S3: { service: ec2.GatewayVpcEndpointAwsService.S3 },
        DynamoDB: { service: ec2.GatewayVpcEndpointAwsService.DYNAMODB },
      },
    }) as ec2.IVpc;
    this.vpc.addFlowLog("Rejected", {
      trafficType: ec2.FlowLogTrafficType.REJECT,
      destination: ec2.FlowLogDestination.toCloudWatchLogs(
        new logs.LogGroup(this, "FlowLog", { retention: logs.RetentionDays.ONE_MONTH }),
      ),
    });

    this.functions = this.#group("Functions", "Functions of the product");
    this.migrator = this.#group("Migrator", "The function that changes the schema");
    this.proxy = this.#group("Proxy", "RDS Proxy");
    this.cluster = this.#group("Cluster", "The Aurora cluster");

    const postgres = ec2.Port.tcp(5432);
    for (const group of [this.functions, this.migrator]) {
      group.addEgressRule(ec2.Peer.anyIpv4(), ec2.Port.HTTPS, "AWS and the model");
    }
    if (props.proxied) {
      this.functions.connections.allowTo(this.proxy, postgres, "Functions to the proxy");
      // The proxy's own way to the cluster comes with its target.
    } else {
      this.functions.connections.allowTo(this.cluster, postgres, "Functions to the database");
    }
    this.migrator.connections.allowTo(this.cluster, postgres, "The migrator to the database");
  }

  #group(id: string, description: string): ec2.SecurityGroup {
    return new ec2.SecurityGroup(this, id, { vpc: this.vpc, description, allowAllOutbound: false });
  }
}
