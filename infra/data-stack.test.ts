import { describe, expect, test } from "vitest";
import { actions, ofType, ourFunctions, statements, synthesise } from "./testing/synthesised.ts";

const { data } = synthesise();

describe("data", () => {
  const [cluster] = ofType(data, "AWS::RDS::DBCluster").map(([, it]) => it);
  const [proxy] = ofType(data, "AWS::RDS::DBProxy").map(([, { Properties }]) => Properties);
  const [bucket] = ofType(data, "AWS::S3::Bucket").map(([, it]) => it);
  const [table] = ofType(data, "AWS::DynamoDB::Table").map(([, { Properties }]) => Properties);

  test("is kept when the stacks go, unless the operator says otherwise", () => {
    const thrownAway = synthesise({ retainData: "false" }).data;
    const policies = (resources: typeof data) =>
      ["AWS::RDS::DBCluster", "AWS::S3::Bucket", "AWS::KMS::Key", "AWS::SecretsManager::Secret"].map((type) =>
        ofType(resources, type).map(([, { DeletionPolicy }]) => DeletionPolicy),
      );

    // The owner's secret and the model's: what is kept is of no use without them.
    expect(policies(data)).toEqual([["Retain"], ["Retain"], ["Retain"], ["Retain", "Retain"]]);
    expect(cluster?.Properties.DeletionProtection).toBe(true);
    expect(policies(thrownAway)).toEqual([["Delete"], ["Delete"], ["Delete"], ["Delete", "Delete"]]);
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

  test("has no rule of its security groups twice: removing one of the pair would revoke both", () => {
    const rules = [data, synthesise({ scaleToZero: "true" }).data].flatMap((resources, i) =>
      [
        ...ofType(resources, "AWS::EC2::SecurityGroupIngress"),
        ...ofType(resources, "AWS::EC2::SecurityGroupEgress"),
      ].map(
        // A port is a number here and a reference to the cluster's there; both are 5432.
        ([, { Type, Properties: it }]) =>
          JSON.stringify([i, Type, it.GroupId, it.SourceSecurityGroupId ?? it.DestinationSecurityGroupId]),
      ),
    );

    expect(rules.length).toBeGreaterThan(6);
    expect(rules.filter((rule, at) => rules.indexOf(rule) !== at)).toEqual([]);
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

  test("is let go by a transaction whose function is frozen or gone", () => {
    const [parameters] = ofType(data, "AWS::RDS::DBClusterParameterGroup").map(([, { Properties }]) => Properties);

    expect(parameters.Parameters).toEqual({ "rds.force_ssl": "1", idle_in_transaction_session_timeout: "30000" });
  });

  test("of two stages fits into one account", () => {
    expect(proxy.DBProxyName).toBe("mango-dev");
    expect(ofType(synthesise({ stage: "prod" }).data, "AWS::RDS::DBProxy")[0]?.[1].Properties.DBProxyName).toBe(
      "mango-prod",
    );
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

describe("a database that scales to zero", () => {
  const { data: pausing, service } = synthesise({ scaleToZero: "true" });
  const functions = ourFunctions(service);

  test("pauses after five minutes, and no proxy and no forgotten connection keeps it awake", () => {
    const [cluster] = ofType(pausing, "AWS::RDS::DBCluster").map(([, { Properties }]) => Properties);
    const [parameters] = ofType(pausing, "AWS::RDS::DBClusterParameterGroup").map(([, { Properties }]) => Properties);

    expect(cluster.ServerlessV2ScalingConfiguration).toEqual({
      MinCapacity: 0,
      MaxCapacity: 8,
      SecondsUntilAutoPause: 300,
    });
    expect(ofType(pausing, "AWS::RDS::DBProxy")).toEqual([]);
    expect(parameters.Parameters.idle_session_timeout).toBe("120000");
  });

  test.each(Object.keys(functions))("is reached by %s directly, with a token and over TLS", (name) => {
    const fn = functions[name] ?? expect.fail(name);
    const { MANGO_DATABASE_HOST, NODE_EXTRA_CA_CERTS, MANGO_SCALE_TO_ZERO } = fn.Properties.Environment.Variables;

    expect(JSON.stringify(MANGO_DATABASE_HOST)).toContain("EndpointAddress");
    expect(NODE_EXTRA_CA_CERTS).toBe("/var/runtime/ca-cert.pem");
    if (name !== "Migrate") {
      expect(MANGO_SCALE_TO_ZERO).toBe("on");
      const connect = statements(service, fn).find((it) => actions(it).includes("rds-db:connect"));
      expect(JSON.stringify(connect?.Resource)).toMatch(/DBClusterResourceId.*mango_app/);
      const marker = statements(service, fn).find((it) => actions(it).includes("dynamodb:GetItem"));
      expect(JSON.stringify(marker?.Resource)).toMatch(/LiveTable/);
    }
  });
});

test("the network is in the region's first two zones, or in those that the operator names", () => {
  const zones = (resources: typeof data) => [
    ...new Set(ofType(resources, "AWS::EC2::Subnet").map(([, { Properties }]) => Properties.AvailabilityZone)),
  ];
  const chosen = synthesise({ availabilityZones: "us-east-1b,us-east-1c" }).data;

  expect(zones(data)).toContainEqual({ "Fn::Select": [0, { "Fn::GetAZs": "" }] });
  expect(zones(chosen)).toEqual(["us-east-1b", "us-east-1c"]);
});

describe("the way out", () => {
  const routes = (resources: typeof data) =>
    ofType(resources, "AWS::EC2::Route").filter(([, { Properties }]) => Properties.NatGatewayId !== undefined);

  test("is a NAT for each of the functions' subnets", () => {
    expect(ofType(data, "AWS::EC2::NatGateway")).toHaveLength(1);
    expect(routes(data)).toHaveLength(2);
  });

  test("is left to the operator who declares another", () => {
    const own = synthesise({ natGateways: "0", ownEgress: "true" }).data;

    expect(ofType(own, "AWS::EC2::NatGateway")).toEqual([]);
    expect(routes(own)).toEqual([]);
  });
});
