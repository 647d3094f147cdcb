import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  ApiEnvironment,
  MigrationEnvironment,
  ModelEnvironment,
  ProductEnvironment,
  readEnvironment,
} from "../functions/environment.ts";
import { STATE_HANDLERS } from "../shared/turns/state-handlers.ts";
import { GATEWAY_ANSWERS } from "./gateway-answers.ts";
import { actions, ofType, ourFunctions, statements, synthesise } from "./testing/synthesised.ts";

const ASL = readFileSync(new URL("../statemachines/turn.asl.json", import.meta.url), "utf8");
const { data, service } = synthesise();
const functions = ourFunctions(service);

/** Every function, and all that its role may do beyond running. */
const RIGHTS = {
  CallModel: [
    "kms:Decrypt",
    "kms:GenerateDataKey",
    "rds-db:connect",
    "secretsmanager:GetSecretValue",
    "states:*2",
    "dynamodb:PutItem",
  ],
  GateTools: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "dynamodb:PutItem"],
  RunTool: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "dynamodb:PutItem"],
  AwaitActions: ["rds-db:connect", "states:*2"],
  Hibernate: ["rds-db:connect"],
  Backoff: ["rds-db:connect", "states:*2"],
  HandOver: ["rds-db:connect", "states:*2"],
  CompleteTurn: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "states:*2", "dynamodb:PutItem"],
  FailTurn: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "states:*2", "dynamodb:PutItem"],
  Api: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "states:*2", "dynamodb:PutItem"],
  Work: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "states:*2", "dynamodb:PutItem", "dynamodb:Query"],
  Stream: ["kms:Decrypt", "kms:GenerateDataKey", "rds-db:connect", "dynamodb:Query"],
  Relay: ["rds-db:connect", "states:*2"],
  Migrate: ["kms:Decrypt", "secretsmanager:GetSecretValue"],
};
/** What every function has: its log, its network interface, its trace. */
const RUNNING = [
  "ec2:AssignPrivateIpAddresses",
  "ec2:CreateNetworkInterface",
  "ec2:DeleteNetworkInterface",
  "ec2:DescribeNetworkInterfaces",
  "ec2:DescribeSubnets",
  "ec2:UnassignPrivateIpAddresses",
  "logs:CreateLogStream",
  "logs:PutLogEvents",
  "xray:PutTelemetryRecords",
  "xray:PutTraceSegments",
];

describe("the state machine", () => {
  const [machine] = ofType(service, "AWS::StepFunctions::StateMachine").map(([, { Properties }]) => Properties);

  test("runs the file as it is, each of its states by the function of that name", () => {
    const named = [...new Set([...ASL.matchAll(/\$\{(\w+)Function\}/g)].map(([, state]) => state ?? ""))];
    const { ParkSeconds, ...substituted } = machine.DefinitionSubstitutions;

    expect(machine.DefinitionString).toBe(ASL);
    expect(ParkSeconds).toBe("86400");
    expect(substituted).toEqual(
      Object.fromEntries(named.map((state) => [`${state}Function`, { "Fn::GetAtt": [functions[state]?.id, "Arn"] }])),
    );
    expect(named.sort()).toEqual(Object.keys(STATE_HANDLERS).sort());
  });

  test.each([
    ["CallModel", "call-model"],
    ["GateTools", "gate-tools"],
    ["RunTool", "run-tool"],
    ["AwaitActions", "await-actions"],
    ["Hibernate", "hibernate"],
    ["Backoff", "backoff"],
    ["HandOver", "hand-over"],
    ["CompleteTurn", "complete-turn"],
    ["FailTurn", "fail-turn"],
  ])("state %s is functions/%s.lambda.ts", (state, file) => {
    expect(functions[state]?.Properties.Description).toBe(`A state of the turn: ${file}`);
    const source = new URL(`../functions/${file}.lambda.ts`, import.meta.url);
    expect(existsSync(source)).toBe(true);
    const handler = `${state.charAt(0).toLowerCase()}${state.slice(1)}`;
    expect(readFileSync(source, "utf8")).toMatch(new RegExp(`import \\{ ${handler} \\} from "../shared/turns/`));
  });

  test("is Standard, traced, and logs no execution data", () => {
    expect(machine.StateMachineType).toBe("STANDARD");
    expect(machine.TracingConfiguration).toEqual({ Enabled: true });
    expect(machine.LoggingConfiguration).toMatchObject({ Level: "ALL", IncludeExecutionData: false });
  });

  test("is the one that the functions are told of", () => {
    const arn = functions["Api"]?.Properties.Environment.Variables.MANGO_STATE_MACHINE_ARN["Fn::Join"][1];

    expect(machine.StateMachineName).toBe("mango-dev-turn");
    expect(arn.at(-1)).toBe(":stateMachine:mango-dev-turn");
  });
});

describe("every function", () => {
  test("is one of these", () => {
    expect(Object.keys(functions).sort()).toEqual(Object.keys(RIGHTS).sort());
  });

  test.each(Object.keys(RIGHTS))("%s runs on Node 24 on arm64 in the VPC, traced, with a log that ends", (name) => {
    expect(functions[name]?.Properties).toMatchObject({
      Runtime: "nodejs24.x",
      Architectures: ["arm64"],
      Handler: "index.handler",
      TracingConfig: { Mode: "Active" },
    });
    expect(functions[name]?.Properties.VpcConfig.SecurityGroupIds).toHaveLength(1);
    const log = service[functions[name]?.Properties.LoggingConfig.LogGroup.Ref];
    expect(log?.Properties.RetentionInDays).toBe(30);
  });

  test.each(Object.entries(RIGHTS))("%s may do this and nothing else", (name, rights) => {
    const found = functions[name];
    const has = found === undefined ? [] : statements(service, found).flatMap(actions);
    const expected = rights.flatMap((right) =>
      right === "states:*2" ? ["states:SendTaskSuccess", "states:StartExecution"] : right,
    );

    expect([...new Set(has)].sort()).toEqual([...expected, ...RUNNING].sort());
  });

  test.each(Object.keys(RIGHTS))("%s finds the variables that it needs, and no others of ours", (name) => {
    const variables: Record<string, unknown> = functions[name]?.Properties.Environment.Variables;
    const environment: Record<string, string> = { AWS_REGION: "eu-central-1" };
    for (const [variable, value] of Object.entries(variables)) {
      environment[variable] = typeof value === "string" ? value : "known at deployment";
    }
    if (environment["MANGO_STATE_MACHINE_ARN"] !== undefined) {
      environment["MANGO_STATE_MACHINE_ARN"] = "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-dev-turn";
    }
    const needs = {
      CallModel: [ProductEnvironment, ModelEnvironment],
      Migrate: [MigrationEnvironment],
      Stream: [ProductEnvironment, ApiEnvironment],
    }[name] ?? [ProductEnvironment];

    const read = Object.assign({}, ...needs.map((schema) => readEnvironment<never>(schema as never, environment)));

    const ours = Object.keys(variables).filter((variable) => variable.startsWith("MANGO_"));
    expect(Object.keys(read)).toEqual(expect.arrayContaining(ours));
  });

  test("waits for the migrations, except the one that runs them", () => {
    const [schema] = ofType(service, "AWS::CloudFormation::CustomResource").map(([id]) => id);
    const waiting = Object.entries(functions).filter(([, { DependsOn }]) => [DependsOn].flat().includes(schema));

    expect(schema).toBeDefined();
    expect(waiting.map(([name]) => name).sort()).toEqual(
      Object.keys(RIGHTS)
        .filter((it) => it !== "Migrate")
        .sort(),
    );
  });

  test("of these has a concurrency of its own", () => {
    const reserved = Object.entries(functions).map(([name, { Properties }]) => [
      name,
      Properties.ReservedConcurrentExecutions,
    ]);

    expect(Object.fromEntries(reserved.filter(([, count]) => count !== undefined))).toEqual({
      Api: 100,
      Work: 100,
      Stream: 200,
      Relay: 1,
    });
  });
});

describe("rights", () => {
  const policies = [data, service].flatMap((resources) =>
    ofType(resources, "AWS::IAM::Policy").flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement),
  );
  const onResource = (name: string, action: string) =>
    statements(service, functions[name] ?? expect.fail(`no function ${name}`)).find((it) =>
      actions(it).includes(action),
    )?.Resource;

  test("name every action in full", () => {
    expect(policies.flatMap(actions).filter((action) => action.includes("*"))).toEqual([]);
  });

  test("are on every resource only where AWS knows none", () => {
    const anywhere = policies.filter((it) => [it.Resource].flat().includes("*")).flatMap(actions);

    expect([...new Set(anywhere)].sort()).toEqual(
      [
        ...RUNNING.filter((action) => !action.startsWith("logs:")),
        // The state machine's own log and traces.
        "logs:CreateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:DescribeLogGroups",
        "logs:DescribeResourcePolicies",
        "logs:GetLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:UpdateLogDelivery",
        "xray:GetSamplingRules",
        "xray:GetSamplingTargets",
      ].sort(),
    );
  });

  test("to secrets: the model's key for call-model, the owner's password for the migrator", () => {
    const readers = Object.keys(functions).filter((name) => onResource(name, "secretsmanager:GetSecretValue"));

    expect(readers.sort()).toEqual(["CallModel", "Migrate"]);
    expect(JSON.stringify(onResource("CallModel", "secretsmanager:GetSecretValue"))).toContain("ModelKey");
    expect(JSON.stringify(onResource("Migrate", "secretsmanager:GetSecretValue"))).toContain("DatabaseClusterSecret");
  });

  test("to start executions: of our state machine only", () => {
    const started = Object.keys(functions)
      .map((name) => onResource(name, "states:StartExecution"))
      .filter(Boolean);

    expect(started).not.toEqual([]);
    for (const arn of started) {
      expect((arn as { "Fn::Join": [string, unknown[]] })["Fn::Join"][1].at(-1)).toBe(":stateMachine:mango-dev-turn");
    }
  });

  test("to the key: through the services that keep the data", () => {
    const withKey = policies.filter((it) => actions(it).some((action) => action.startsWith("kms:")));

    expect(withKey).not.toEqual([]);
    for (const { Condition } of withKey) {
      expect(JSON.stringify(Condition)).toMatch(/^\{"StringEquals":\{"kms:ViaService":.*(dynamodb|secretsmanager)\./);
    }
  });
});

describe("the API", () => {
  const paths = new Map<string, string>();
  for (const [id, { Properties }] of ofType(service, "AWS::ApiGateway::Resource")) {
    // Parents come first in the template.
    paths.set(id, `${paths.get(Properties.ParentId.Ref) ?? ""}/${Properties.PathPart}`);
  }
  const methods = ofType(service, "AWS::ApiGateway::Method").map(([, { Properties }]) => ({
    route: `${Properties.HttpMethod} ${paths.get(Properties.ResourceId.Ref) ?? "/"}`,
    integration: Properties.Integration,
    uri: JSON.stringify(Properties.Integration.Uri),
  }));
  const target = (uri: string) => Object.keys(functions).find((name) => uri.includes(`"${functions[name]?.id}"`));

  test("sends each route to its function", () => {
    expect(Object.fromEntries(methods.map(({ route, uri }) => [route, target(uri)]))).toEqual({
      "ANY /": "Api",
      "ANY /{proxy+}": "Api",
      "ANY /v1": "Api",
      "ANY /v1/{proxy+}": "Api",
      "ANY /v1/sessions": "Api",
      "ANY /v1/sessions/{session_id}": "Api",
      "ANY /v1/sessions/{session_id}/{proxy+}": "Api",
      "ANY /v1/sessions/{session_id}/events": "Api",
      "ANY /v1/sessions/{session_id}/events/{proxy+}": "Api",
      "ANY /v1/sessions/{session_id}/events/stream": "Api",
      "GET /v1/sessions/{session_id}/events/stream": "Stream",
      "ANY /v1/environments": "Api",
      "ANY /v1/environments/{environment_id}": "Api",
      "ANY /v1/environments/{environment_id}/{proxy+}": "Api",
      "ANY /v1/environments/{environment_id}/work": "Work",
      "ANY /v1/environments/{environment_id}/work/{proxy+}": "Work",
    });
  });

  test("streams what the stream function answers, for 15 minutes, and nothing else", () => {
    const streamed = methods.filter(({ integration }) => integration.ResponseTransferMode === "STREAM");

    expect(streamed.map(({ route }) => route)).toEqual(["GET /v1/sessions/{session_id}/events/stream"]);
    expect(streamed[0]?.integration.TimeoutInMillis).toBe(900_000);
    expect(streamed[0]?.uri).toContain("2021-11-15/functions/");
    expect(streamed[0]?.uri).toContain("/response-streaming-invocations");
    expect(methods.filter(({ uri }) => uri.includes("response-streaming")).length).toBe(1);
  });

  test("is Regional: at the edge a silent stream is cut after 30 seconds", () => {
    const [api] = ofType(service, "AWS::ApiGateway::RestApi").map(([, { Properties }]) => Properties);

    expect(api.EndpointConfiguration).toEqual({ Types: ["REGIONAL"] });
  });

  test("answers in the one envelope when the gateway itself answers", () => {
    const answers = ofType(service, "AWS::ApiGateway::GatewayResponse").map(([, { Properties }]) => Properties);

    expect(answers).toHaveLength(GATEWAY_ANSWERS.length);
    expect(answers.map(({ ResponseType }) => ResponseType)).toEqual(
      expect.arrayContaining(["DEFAULT_4XX", "DEFAULT_5XX"]),
    );
    for (const { ResponseTemplates, ResponseParameters } of answers) {
      const text = ResponseTemplates["application/json"]
        .replace("$context.error.messageString", '"quoted by the gateway"')
        .replace("$context.requestId", "gateway-1");
      expect(JSON.parse(text)).toEqual({
        type: "error",
        error: { type: expect.stringMatching(/_error$|^request_too_large$/), message: expect.any(String) },
        request_id: "gateway-1",
      });
      expect(ResponseParameters["gatewayresponse.header.request-id"]).toBe("context.requestId");
    }
  });

  test.each(["DEFAULT_5XX", "INTEGRATION_TIMEOUT", "INTEGRATION_FAILURE"])(
    "tells the SDKs not to repeat what may have been committed: %s",
    (type) => {
      const answer = ofType(service, "AWS::ApiGateway::GatewayResponse").find(
        ([, it]) => it.Properties.ResponseType === type,
      );

      expect(answer?.[1].Properties.ResponseParameters["gatewayresponse.header.x-should-retry"]).toBe("'false'");
    },
  );

  test("writes no header and no body into its log", () => {
    const [stage] = ofType(service, "AWS::ApiGateway::Stage").map(([, { Properties }]) => Properties);

    expect(stage.MethodSettings).toEqual([
      { DataTraceEnabled: false, HttpMethod: "*", LoggingLevel: "ERROR", MetricsEnabled: true, ResourcePath: "/*" },
    ]);
    expect(stage.AccessLogSetting.Format).not.toMatch(/header|authorizer|apiKey|body/i);
    expect(stage.TracingEnabled).toBe(true);
  });
});

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

test("every alarm tells whom it wakes and where to read on, and reaches the topic", () => {
  const alarms = ofType(service, "AWS::CloudWatch::Alarm").map(([, { Properties }]) => Properties);
  const [topic] = ofType(service, "AWS::SNS::Topic").map(([id]) => id);

  expect(alarms).toHaveLength(7);
  for (const { AlarmDescription, AlarmActions } of alarms) {
    expect(AlarmDescription).toMatch(/^\[(high|medium)\] .+\. See docs\/runbook\.md, section \w+\.$/);
    expect(AlarmActions).toEqual([{ Ref: topic }]);
  }
});
