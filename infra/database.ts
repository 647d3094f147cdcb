import { Duration, RemovalPolicy } from "aws-cdk-lib";
import { SubnetType } from "aws-cdk-lib/aws-ec2";
import * as iam from "aws-cdk-lib/aws-iam";
import type { IKey } from "aws-cdk-lib/aws-kms";
import * as rds from "aws-cdk-lib/aws-rds";
import type { ISecret } from "aws-cdk-lib/aws-secretsmanager";
import { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";
import type { Network } from "./network.ts";

export interface DatabaseProps {
  readonly network: Network;
  readonly key: IKey;
  readonly minCapacity: number;
  readonly maxCapacity: number;
  readonly retain: boolean;
}

export const DATABASE_NAME = "mango";
/** May change rows; has no password. The migrator makes it. */
export const APPLICATION_ROLE = "mango_app";
/** Owns the tables. */
const OWNER_ROLE = "mango_owner";

/** The truth: Aurora PostgreSQL, behind a proxy that takes IAM tokens and passes them on. */
export class Database extends Construct {
  readonly cluster: rds.DatabaseCluster;
  readonly proxy: rds.DatabaseProxy;
  /** The owner's credentials; only the migrator reads them. */
  readonly ownerSecret: ISecret;

  constructor(scope: Construct, id: string, props: DatabaseProps) {
    super(scope, id);
    const { network, key, retain } = props;
    const vpcSubnets = { subnetType: SubnetType.PRIVATE_ISOLATED };
    const engine = rds.DatabaseClusterEngine.auroraPostgres({ version: rds.AuroraPostgresEngineVersion.VER_17_9 });
    this.cluster = new rds.DatabaseCluster(this, "Cluster", {
      engine,
      writer: rds.ClusterInstance.serverlessV2("Writer", { publiclyAccessible: false }),
      serverlessV2MinCapacity: props.minCapacity,
      serverlessV2MaxCapacity: props.maxCapacity,
      vpc: network.vpc,
      vpcSubnets,
      securityGroups: [network.cluster],
      defaultDatabaseName: DATABASE_NAME,
      credentials: rds.Credentials.fromGeneratedSecret(OWNER_ROLE, { encryptionKey: key }),
      iamAuthentication: true,
      parameters: { "rds.force_ssl": "1" },
      storageEncrypted: true,
      storageEncryptionKey: key,
      backup: { retention: Duration.days(7) },
      copyTagsToSnapshot: true,
      // Its log stays inside: the detail of a refused row quotes the row.
      deletionProtection: retain,
      removalPolicy: retain ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
    });
    const { secret } = this.cluster;
    if (secret === undefined) {
      throw new Error("The cluster was made without a secret for its owner.");
    }
    this.ownerSecret = secret;

    const role = new iam.Role(this, "ProxyRole", { assumedBy: new iam.ServicePrincipal("rds.amazonaws.com") });
    this.cluster.grantConnect(role, APPLICATION_ROLE);
    this.proxy = new rds.DatabaseProxy(this, "Proxy", {
      proxyTarget: rds.ProxyTarget.fromCluster(this.cluster),
      vpc: network.vpc,
      vpcSubnets,
      securityGroups: [network.proxy],
      role,
      iamAuth: true,
      // End to end: the proxy holds no password either.
      defaultAuthScheme: rds.DefaultAuthScheme.IAM_AUTH,
      requireTLS: true,
      // Below the functions' own limit for connecting, so that the proxy's answer is the one they see.
      borrowTimeout: Duration.seconds(8),
    });

    if (!retain) {
      accept(
        this.cluster,
        "AwsSolutions-RDS10",
        "The operator chose retainData=false: this deployment is to be thrown away.",
      );
    }
    accept(this.cluster, "AwsSolutions-RDS11", "The port is reachable from two security groups only.");
    accept(
      this.cluster,
      "AwsSolutions-SMG4",
      "Only the migrator uses it, inside the network; rotation is the operator's call.",
    );
  }
}
