import { Duration, RemovalPolicy, Token } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import type { IKey } from "aws-cdk-lib/aws-kms";
import * as rds from "aws-cdk-lib/aws-rds";
import type { ISecret } from "aws-cdk-lib/aws-secretsmanager";
import { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";
import type { Network } from "./network.ts";
import type { Settings } from "./settings.ts";

export interface DatabaseProps {
  readonly network: Network;
  readonly key: IKey;
  readonly settings: Settings;
}

const DATABASE_NAME = "mango";
/** May change rows; has no password. The migrator makes it. */
const APPLICATION_ROLE = "mango_app";
/** Owns the tables. */
const OWNER_ROLE = "mango_owner";

const DATABASE_SUBNETS = { subnetGroupName: "database" };
/** How long without a connection until the database pauses, where it may. */
const PAUSE_AFTER = Duration.minutes(5);
/** A transaction that waits this long for its next statement belongs to a function that is frozen or gone. */
const IDLE_IN_TRANSACTION = Duration.seconds(30);
/** The same for a connection, where only idle connections keep the database awake. */
const IDLE = Duration.minutes(2);

/**
 * The truth: Aurora PostgreSQL, behind a proxy that takes IAM tokens and passes them on. A database that may pause has no
 * proxy, which would keep its connections: the functions come to it directly, with tokens all the same.
 */
export class Database extends Construct {
  readonly cluster: rds.DatabaseCluster;
  readonly proxy: rds.DatabaseProxy | undefined;
  /** The owner's credentials; only the migrator reads them. */
  readonly ownerSecret: ISecret;
  readonly #emulator: string | undefined;

  constructor(scope: Construct, id: string, props: DatabaseProps) {
    super(scope, id);
    const { network, key, settings } = props;
    this.#emulator = settings.emulatorDatabase;
    const { retainData: retain, scaleToZero } = settings;
    const engine = rds.DatabaseClusterEngine.auroraPostgres({ version: rds.AuroraPostgresEngineVersion.VER_17_9 });
    const ownerSecret = new rds.DatabaseSecret(this, "OwnerSecret", { username: OWNER_ROLE, encryptionKey: key });
    if (retain) {
      // What is kept would be of no use without it.
      ownerSecret.applyRemovalPolicy(RemovalPolicy.RETAIN);
    }
    this.cluster = new rds.DatabaseCluster(this, "Cluster", {
      engine,
      writer: rds.ClusterInstance.serverlessV2("Writer", { publiclyAccessible: false }),
      serverlessV2MinCapacity: settings.minCapacity,
      serverlessV2MaxCapacity: settings.maxCapacity,
      ...(scaleToZero && { serverlessV2AutoPauseDuration: PAUSE_AFTER }),
      vpc: network.vpc,
      vpcSubnets: DATABASE_SUBNETS,
      securityGroups: [network.cluster],
      defaultDatabaseName: DATABASE_NAME,
      // The cast: as for the network's, the CDK's own types disagree.
      credentials: rds.Credentials.fromSecret(ownerSecret as ISecret),
      iamAuthentication: true,
      parameters: {
        "rds.force_ssl": "1",
        idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION.toMilliseconds()),
        ...(scaleToZero && { idle_session_timeout: String(IDLE.toMilliseconds()) }),
      },
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

    this.proxy = scaleToZero ? undefined : this.#makeProxy(network, settings.stage);

    if (!retain) {
      accept(
        this.cluster,
        "AwsSolutions-RDS10",
        "The operator chose retainData=false: this deployment is to be thrown away.",
      );
    }
    accept(this.cluster, "AwsSolutions-RDS11", "The port is reachable from two security groups only.");
    accept(
      ownerSecret,
      "AwsSolutions-SMG4",
      "Only the migrator uses it, inside the network; rotation is the operator's call.",
    );
  }

  /** Where the functions find it. The proxy listens on the cluster's port. */
  get variables(): Record<string, string> {
    return this.#addressed(this.proxy?.endpoint ?? this.cluster.clusterEndpoint.hostname);
  }

  /** Where the migrator finds it: the writer itself, because its lock and its DDL would pin the proxy. */
  get writerVariables(): Record<string, string> {
    return this.#addressed(this.cluster.clusterEndpoint.hostname);
  }

  #addressed(host: string): Record<string, string> {
    const [emulated, port] = this.#emulator?.split(":") ?? [];
    return {
      MANGO_DATABASE_HOST: emulated ?? host,
      MANGO_DATABASE_PORT: port ?? Token.asString(this.cluster.clusterEndpoint.port),
      MANGO_DATABASE_NAME: DATABASE_NAME,
      MANGO_DATABASE_USER: APPLICATION_ROLE,
      ...(emulated !== undefined && { MANGO_DATABASE_TLS: "off" }),
    };
  }

  grantConnect(grantee: iam.IGrantable): void {
    (this.proxy ?? this.cluster).grantConnect(grantee, APPLICATION_ROLE);
  }

  /** To the cluster itself, as who owns the tables: see `functions/migrate.lambda.ts`. */
  grantOwnerConnect(grantee: iam.IGrantable): void {
    this.cluster.grantConnect(grantee, OWNER_ROLE);
  }

  #makeProxy(network: Network, stage: string): rds.DatabaseProxy {
    const role = new iam.Role(this, "ProxyRole", { assumedBy: new iam.ServicePrincipal("rds.amazonaws.com") });
    this.cluster.grantConnect(role, APPLICATION_ROLE);
    return new rds.DatabaseProxy(this, "Proxy", {
      // Its name is the account's, not the stack's: two stages must not want the same.
      dbProxyName: `mango-${stage}`,
      proxyTarget: rds.ProxyTarget.fromCluster(this.cluster),
      vpc: network.vpc,
      vpcSubnets: DATABASE_SUBNETS,
      securityGroups: [network.proxy],
      role,
      iamAuth: true,
      // End to end: the proxy holds no password either.
      defaultAuthScheme: rds.DefaultAuthScheme.IAM_AUTH,
      requireTLS: true,
      // Below the functions' own limit for connecting, so that the proxy's answer is the one they see.
      borrowTimeout: Duration.seconds(8),
    });
  }
}
