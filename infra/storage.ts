import { Duration, RemovalPolicy } from "aws-cdk-lib";
import { AttributeType, BillingMode, Table, TableEncryption } from "aws-cdk-lib/aws-dynamodb";
import type { IKey } from "aws-cdk-lib/aws-kms";
import * as s3 from "aws-cdk-lib/aws-s3";
import { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";

export interface StorageProps {
  readonly key: IKey;
  readonly retain: boolean;
}

/** Bytes: files, skill archives, large results. */
export class Storage extends Construct {
  readonly bucket: s3.Bucket;

  constructor(scope: Construct, id: string, props: StorageProps) {
    super(scope, id);
    this.bucket = new s3.Bucket(this, "Objects", {
      encryption: s3.BucketEncryption.KMS,
      encryptionKey: props.key,
      bucketKeyEnabled: true,
      versioned: true,
      blockPublicAccess: s3.BlockPublicAccess.BLOCK_ALL,
      objectOwnership: s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
      enforceSSL: true,
      minimumTLSVersion: 1.2,
      lifecycleRules: [
        {
          // Billed and invisible until somebody does.
          abortIncompleteMultipartUploadAfter: Duration.days(2),
          noncurrentVersionExpiration: Duration.days(30),
        },
      ],
      removalPolicy: props.retain ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
    });
    accept(this.bucket, "AwsSolutions-S1", "Who reads what is in our own audit records; S3's log would hold the keys.");
  }
}

/**
 * Wake-ups and previews, gone after ten minutes: see `shared/live/dynamodb-live-channel.ts`. Beside them what must be
 * known without the database: the places of open streams (`dynamodb-stream-places.ts` there), and when somebody was
 * active last (`functions/quiet.ts`).
 */
export class Live extends Construct {
  readonly table: Table;

  constructor(scope: Construct, id: string, props: { readonly key: IKey }) {
    super(scope, id);
    this.table = new Table(this, "Table", {
      partitionKey: { name: "topic", type: AttributeType.STRING },
      sortKey: { name: "at", type: AttributeType.STRING },
      timeToLiveAttribute: "expires",
      billingMode: BillingMode.PAY_PER_REQUEST,
      // Previews are conversation text.
      encryption: TableEncryption.CUSTOMER_MANAGED,
      encryptionKey: props.key,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    accept(this.table, "AwsSolutions-DDB3", "Nothing in it is worth restoring.");
  }
}
