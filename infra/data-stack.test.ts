import { describe, expect, test } from "vitest";
import { ofType, synthesise } from "./testing/synthesised.ts";

const { data } = synthesise();

describe("data", () => {
  const [cluster] = ofType(data, "AWS::RDS::DBCluster").map(([, it]) => it);
  const [proxy] = ofType(data, "AWS::RDS::DBProxy").map(([, { Properties }]) => Properties);
  const [bucket] = ofType(data, "AWS::S3::Bucket").map(([, it]) => it);
  const [table] = ofType(data, "AWS::DynamoDB::Table").map(([, { Properties }]) => Properties);

  test("is kept when the stacks go, unless the operator says otherwise", () => {
    const thrownAway = synthesise({ retainData: "false" }).data;
    const policies = (resources: typeof data) =>
      ["AWS::RDS::DBCluster", "AWS::S3::Bucket", "AWS::KMS::Key"].map(
        (type) => ofType(resources, type)[0]?.[1].DeletionPolicy,
      );

    expect(policies(data)).toEqual(["Retain", "Retain", "Retain"]);
    expect(cluster?.Properties.DeletionProtection).toBe(true);
    expect(policies(thrownAway)).toEqual(["Delete", "Delete", "Delete"]);
  });

  test("is encrypted with our key", () => {
    const key = { "Fn::GetAtt": [ofType(data, "AWS::KMS::Key")[0]?.[0], "Arn"] };

    expect(cluster?.Properties).toMatchObject({ StorageEncrypted: true, KmsKeyId: key });
    expect(
      bucket?.Properties.BucketEncryption.ServerSideEncryptionConfiguration[0].ServerSideEncryptionByDefault,
    ).toEqual({
      SSEAlgorithm: "aws:kms",
      KMSMasterKeyID: key,
    });
    expect(table.SSESpecification).toEqual({ SSEEnabled: true, SSEType: "KMS", KMSMasterKeyId: key });
    for (const [, { Properties }] of ofType(data, "AWS::SecretsManager::Secret")) {
      expect(Properties.KmsKeyId).toEqual(key);
    }
  });

  test("is reached by no public address", () => {
    const [instance] = ofType(data, "AWS::RDS::DBInstance").map(([, { Properties }]) => Properties);
    const rules = ofType(data, "AWS::EC2::SecurityGroupIngress").map(([, { Properties }]) => Properties);

    expect(instance.PubliclyAccessible).toBe(false);
    expect(bucket?.Properties.PublicAccessBlockConfiguration).toEqual({
      BlockPublicAcls: true,
      BlockPublicPolicy: true,
      IgnorePublicAcls: true,
      RestrictPublicBuckets: true,
    });
    expect(rules.map(({ CidrIp, FromPort }) => [CidrIp, FromPort])).not.toContainEqual([
      expect.anything(),
      expect.anything(),
    ]);
    for (const [, { Properties }] of ofType(data, "AWS::EC2::SecurityGroup")) {
      expect(Properties.SecurityGroupIngress).toBeUndefined();
    }
    expect(rules.every(({ SourceSecurityGroupId }) => SourceSecurityGroupId !== undefined)).toBe(true);
  });

  test("is entered with IAM from end to end, over TLS", () => {
    expect(cluster?.Properties).toMatchObject({
      Engine: "aurora-postgresql",
      EngineVersion: expect.stringMatching(/^17\./),
      EnableIAMDatabaseAuthentication: true,
      ServerlessV2ScalingConfiguration: { MinCapacity: 0.5, MaxCapacity: 8 },
    });
    expect(proxy).toMatchObject({ DefaultAuthScheme: "IAM_AUTH", RequireTLS: true });
    expect(JSON.stringify(proxy.Auth ?? [])).not.toContain("Secret");
  });

  test("of the live channel expires by the attribute that its writer sets", () => {
    expect(table.TimeToLiveSpecification).toEqual({ AttributeName: "expires", Enabled: true });
    expect(table.KeySchema).toEqual([
      { AttributeName: "topic", KeyType: "HASH" },
      { AttributeName: "at", KeyType: "RANGE" },
    ]);
  });

  test("in unfinished uploads is thrown away", () => {
    expect(bucket?.Properties.VersioningConfiguration).toEqual({ Status: "Enabled" });
    expect(bucket?.Properties.LifecycleConfiguration.Rules[0].AbortIncompleteMultipartUpload).toEqual({
      DaysAfterInitiation: 2,
    });
  });
});
