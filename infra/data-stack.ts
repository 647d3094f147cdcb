import { RemovalPolicy, Stack, type StackProps } from "aws-cdk-lib";
import { Key } from "aws-cdk-lib/aws-kms";
import { Secret } from "aws-cdk-lib/aws-secretsmanager";
import type { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";
import { Database } from "./database.ts";
import { Network } from "./network.ts";
import type { Settings } from "./settings.ts";
import { Live, Storage } from "./storage.ts";

/** What outlives a release: the network, the database, the files, the keys. Everything else can be made again. */
export class DataStack extends Stack {
  readonly key: Key;
  readonly network: Network;
  readonly database: Database;
  readonly storage: Storage;
  readonly live: Live;
  /** Its text is the model's API key. Made with a random one; the operator puts the real one in. */
  readonly modelSecret: Secret;

  constructor(scope: Construct, id: string, props: StackProps & { readonly settings: Settings }) {
    super(scope, id, { ...props, terminationProtection: props.settings.retainData });
    const { settings } = props;
    const { availabilityZones, natGateways, retainData: retain } = settings;
    this.key = new Key(this, "Key", {
      description: "Mango: database, files, live channel, secrets",
      enableKeyRotation: true,
      removalPolicy: retain ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
    });
    const { key } = this;
    this.network = new Network(this, "Network", {
      availabilityZones,
      natGateways,
      proxied: !settings.scaleToZero,
    });
    this.database = new Database(this, "Database", { network: this.network, key, settings });
    this.storage = new Storage(this, "Storage", { key, retain });
    this.live = new Live(this, "Live", { key });
    this.modelSecret = new Secret(this, "ModelKey", {
      description: "The API key of the model endpoint, as plain text",
      encryptionKey: key,
    });
    if (retain) {
      this.modelSecret.applyRemovalPolicy(RemovalPolicy.RETAIN);
    }
    accept(
      this.modelSecret,
      "AwsSolutions-SMG4",
      "The provider issues it; there is nothing here that could rotate it.",
    );
  }
}
