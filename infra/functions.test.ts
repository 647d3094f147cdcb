import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  ApiEnvironment,
  FetchPageEnvironment,
  MigrationEnvironment,
  ModelEnvironment,
  PageCallerEnvironment,
  ProductEnvironment,
  readEnvironment,
} from "../functions/environment.ts";
import { STATE_HANDLERS } from "../shared/turns/state-handlers.ts";
import { actions, ofType, ourFunctions, statements, synthesise } from "./testing/synthesised.ts";

const ASL = readFileSync(new URL("../statemachines/turn.asl.json", import.meta.url), "utf8");
/** With all that may be chosen; what there is without it is compared at the end. */
const PROFILE = { version: "mine-1", preserves_unknown_content_blocks: true, native_web_search: true };
const { data, service } = synthesise({
  modelProfile: JSON.stringify(PROFILE),
  webFetch: "managed",
  webFetchAllowedDomains: "a.example,b.example",
  webFetchBlockedDomains: "c.b.example",
  webFetchProxy: "https://proxy.example:3129",
});
const functions = ourFunctions(service);

/** What a function may do, and on what: an action, then the resource. */
const DATABASE = ["rds-db:connect proxy"];
const KEY = ["kms:Decrypt key", "kms:GenerateDataKey key"];
const PUBLISH = ["dynamodb:PutItem live table", ...KEY];
const FOLLOW = ["dynamodb:Query live table", ...KEY];
const ORCHESTRATE = [
  "states:StartExecution state machine",
  "states:SendTaskSuccess state machine",
  "sqs:SendMessage relay queue",
];
const MODEL_KEY = ["secretsmanager:GetSecretValue model key", "kms:Decrypt key"];

/** Every function, and all that its role may do beyond running. */
const RIGHTS = {
  CallModel: [...DATABASE, ...PUBLISH, ...ORCHESTRATE, ...MODEL_KEY],
  GateTools: [...DATABASE, ...PUBLISH, ...MODEL_KEY],
  RunTool: [...DATABASE, ...PUBLISH, "lambda:InvokeFunction fetch-page"],
  AwaitActions: [...DATABASE, ...ORCHESTRATE],
  Hibernate: [...DATABASE],
  Backoff: [...DATABASE, ...ORCHESTRATE],
  HandOver: [...DATABASE, ...ORCHESTRATE],
  CompleteTurn: [...DATABASE, ...PUBLISH, ...ORCHESTRATE],
  FailTurn: [...DATABASE, ...PUBLISH, ...ORCHESTRATE],
  Api: [...DATABASE, ...PUBLISH, ...ORCHESTRATE],
  Work: [...DATABASE, ...PUBLISH, ...FOLLOW, ...ORCHESTRATE],
  Stream: [...DATABASE, ...FOLLOW, "dynamodb:PutItem live table", "dynamodb:DeleteItem live table"],
  Operator: [...DATABASE],
  Relay: [
    ...DATABASE,
    ...PUBLISH,
    ...ORCHESTRATE,
    "states:DescribeExecution executions",
    "sqs:ReceiveMessage relay queue",
    "sqs:ChangeMessageVisibility relay queue",
    "sqs:GetQueueUrl relay queue",
    "sqs:DeleteMessage relay queue",
    "sqs:GetQueueAttributes relay queue",
  ],
  // It speaks to addresses that tenants chose.
  FetchPage: [],
  Migrate: ["secretsmanager:GetSecretValue owner's password", "kms:Decrypt key", "rds-db:connect cluster as owner"],
};
/** What every function in the VPC has: a network interface. */
const INSIDE = [
  "ec2:AssignPrivateIpAddresses *",
  "ec2:CreateNetworkInterface *",
  "ec2:DeleteNetworkInterface *",
  "ec2:DescribeNetworkInterfaces *",
  "ec2:DescribeSubnets *",
  "ec2:UnassignPrivateIpAddresses *",
];
const inside = (name: string) => name !== "FetchPage";
/** What every function has: its log, its trace. */
const RUNNING = [
  "logs:CreateLogStream its log",
  "logs:PutLogEvents its log",
  "xray:PutTelemetryRecords *",
  "xray:PutTraceSegments *",
];
/** How the template writes each resource. */
const RESOURCES: readonly (readonly [name: string, written: RegExp])[] = [
  ["*", /^"\*"$/],
  ["proxy", /:rds-db:.*DatabaseProxy.*\/mango_app"/],
  ["cluster as owner", /:rds-db:.*DatabaseCluster.*\/mango_owner"/],
  ["live table", /"[\w-]*:ExportsOutputFnGetAttLiveTable\w+Arn\w+"/],
  ["key", /"[\w-]*:ExportsOutputFnGetAttKey\w+Arn\w+"/],
  ["model key", /"[\w-]*:ExportsOutputRefModelKey\w+"/],
  ["owner's password", /"[\w-]*:ExportsOutputRefDatabaseOwnerSecret\w+"/],
  ["state machine", /":stateMachine:mango-dev-turn"/],
  ["executions", /":execution:mango-dev-turn:\*"/],
  ["relay queue", /^\{"Fn::GetAtt":\["RelayQueue(?!GivenUp)\w+","Arn"\]\}$/],
  ["fetch-page", /^\{"Fn::GetAtt":\["FunctionsFetchPageFunction\w+","Arn"\]\}$/],
  ["its log", /^\{"Fn::GetAtt":\["\w+Log\w+","Arn"\]\}$/],
];

function written(resource: unknown): string {
  const text = JSON.stringify(resource);
  return RESOURCES.find(([, form]) => form.test(text))?.[0] ?? text;
}

/** Values of the right form for what only a deployment knows. */
const KNOWN_AT_DEPLOYMENT: Record<string, string> = {
  MANGO_DATABASE_PORT: "5432",
  MANGO_RELAY_QUEUE_URL: "https://sqs.eu-central-1.amazonaws.com/123456789012/relay",
  MANGO_STATE_MACHINE_ARN: "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-dev-turn",
};
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

  test.each(Object.keys(RIGHTS))("%s runs on Node 24 on arm64, traced, with a log that ends", (name) => {
    expect(functions[name]?.Properties).toMatchObject({
      Runtime: "nodejs24.x",
      Architectures: ["arm64"],
      Handler: "index.handler",
      TracingConfig: { Mode: "Active" },
    });
    const log = service[functions[name]?.Properties.LoggingConfig.LogGroup.Ref];
    expect(log?.Properties.RetentionInDays).toBe(30);
  });

  test("is in the VPC, except the one that speaks to addresses that tenants chose", () => {
    const outside = Object.entries(functions).filter(([, { Properties }]) => Properties.VpcConfig === undefined);

    expect(outside.map(([name]) => name)).toEqual(["FetchPage"]);
    for (const name of Object.keys(functions).filter(inside)) {
      expect(functions[name]?.Properties.VpcConfig.SecurityGroupIds).toHaveLength(1);
    }
  });

  test.each(Object.entries(RIGHTS))("%s may do this and nothing else", (name, rights) => {
    const found = functions[name] ?? expect.fail(`no function ${name}`);
    const has = statements(service, found).flatMap((statement) =>
      [statement.Resource]
        .flat()
        .flatMap((resource) => actions(statement).map((action) => `${action} ${written(resource)}`)),
    );

    const running = inside(name) ? [...RUNNING, ...INSIDE] : RUNNING;
    expect([...new Set(has)].sort()).toEqual([...new Set([...rights, ...running])].sort());
  });

  test.each(Object.keys(RIGHTS))("%s finds the variables that it needs, and no others of ours", (name) => {
    const variables: Record<string, unknown> = functions[name]?.Properties.Environment.Variables;
    const environment: Record<string, string> = { AWS_REGION: "eu-central-1" };
    for (const [variable, value] of Object.entries(variables)) {
      environment[variable] = typeof value === "string" ? value : (KNOWN_AT_DEPLOYMENT[variable] ?? "known later");
    }
    const needs = {
      CallModel: [ProductEnvironment, ModelEnvironment],
      GateTools: [ProductEnvironment, ModelEnvironment],
      Migrate: [MigrationEnvironment],
      RunTool: [ProductEnvironment, PageCallerEnvironment],
      FetchPage: [FetchPageEnvironment],
      Stream: [ProductEnvironment, ApiEnvironment],
    }[name] ?? [ProductEnvironment];

    const read = Object.assign({}, ...needs.map((schema) => readEnvironment<never>(schema as never, environment)));

    const ours = Object.keys(variables).filter((variable) => variable.startsWith("MANGO_"));
    expect(Object.keys(read)).toEqual(expect.arrayContaining(ours));
  });

  test("has fewer variables than Lambda takes, with the longest lists of domains that may be chosen", () => {
    const longest = synthesise({
      scaleToZero: "true",
      modelProfile: JSON.stringify({
        version: "v".repeat(64),
        preserves_unknown_content_blocks: true,
        native_response_inclusion: true,
        provider_idempotency: { header: "h".repeat(64) },
      }),
      webFetch: "managed",
      webFetchAllowedDomains: `${"d".repeat(2000 - ".example".length)}.example`,
    }).service;
    // What only a deployment knows is an ARN, an address or a name of at most 150 characters.
    const size = (value: unknown) => (typeof value === "string" ? value.length : 150);

    for (const { Properties } of Object.values(ourFunctions(longest))) {
      const variables: [string, unknown][] = Object.entries(Properties.Environment.Variables);
      expect(variables.reduce((sum, [name, value]) => sum + name.length + size(value), 0)).toBeLessThan(4096);
    }
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

  test.each(Object.keys(RIGHTS))(
    "%s names itself in logs and metrics, and keeps answers and errors out of its trace",
    (name) => {
      expect(functions[name]?.Properties.Environment.Variables).toMatchObject({
        POWERTOOLS_SERVICE_NAME: "mango-dev",
        POWERTOOLS_METRICS_NAMESPACE: "Mango",
      });
    },
  );

  test("of the operator's has the time that a database takes to resume after a day", () => {
    expect(functions["Operator"]?.Properties.Timeout).toBe(60);
  });

  test("of streams lets one key have half of those that may be open", () => {
    expect(functions["Stream"]?.Properties.Environment.Variables.MANGO_STREAMS_PER_KEY).toBe("100");
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
      Relay: 5,
    });
  });

  test("has none where the account may run few at once and the operator says so", () => {
    const few = Object.values(ourFunctions(synthesise({ reserveConcurrency: "false" }).service));

    expect(few.length).toBeGreaterThan(10);
    expect(few.filter(({ Properties }) => Properties.ReservedConcurrentExecutions !== undefined)).toEqual([]);
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
        ...[...RUNNING, ...INSIDE].filter((right) => right.endsWith(" *")).map((right) => right.replace(" *", "")),
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

  test("to secrets: the model's key for what asks the model, the owner's password for the migrator", () => {
    const readers = Object.keys(functions).filter((name) => onResource(name, "secretsmanager:GetSecretValue"));

    expect(readers.sort()).toEqual(["CallModel", "GateTools", "Migrate"]);
    expect(JSON.stringify(onResource("CallModel", "secretsmanager:GetSecretValue"))).toContain("ModelKey");
    expect(JSON.stringify(onResource("GateTools", "secretsmanager:GetSecretValue"))).toContain("ModelKey");
    expect(JSON.stringify(onResource("Migrate", "secretsmanager:GetSecretValue"))).toContain("DatabaseOwnerSecret");
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

  test("to look at executions: of our state machine, for the reconciler only", () => {
    const readers = Object.keys(functions).filter((name) => onResource(name, "states:DescribeExecution"));
    expect(readers).toEqual(["Relay"]);
    expect(JSON.stringify(onResource("Relay", "states:DescribeExecution"))).toContain(":execution:mango-dev-turn:*");
  });

  test("to the key: through the services that keep the data", () => {
    const withKey = policies.filter((it) => actions(it).some((action) => action.startsWith("kms:")));

    expect(withKey).not.toEqual([]);
    for (const { Condition } of withKey) {
      expect(JSON.stringify(Condition)).toMatch(/^\{"StringEquals":\{"kms:ViaService":.*(dynamodb|secretsmanager)\./);
    }
  });
});

describe("web_fetch that the deployment runs", () => {
  const variable = (name: string) =>
    Object.entries(functions)
      .filter(([, { Properties }]) => name in Properties.Environment.Variables)
      .map(([fn]) => fn)
      .sort();
  const ours = (fn: string) =>
    Object.fromEntries(
      Object.entries(functions[fn]?.Properties.Environment.Variables).filter(([name]) => name.startsWith("MANGO_")),
    );

  test("is known to all of the product, with the endpoint's profile", () => {
    const product = Object.keys(RIGHTS)
      .filter((name) => name !== "FetchPage" && name !== "Migrate")
      .sort();

    expect(variable("MANGO_WEB_FETCH")).toEqual(product);
    expect(variable("MANGO_MODEL_PROFILE")).toEqual(product);
    expect(ours("Api")["MANGO_WEB_FETCH"]).toBe("managed");
    expect(JSON.parse(String(ours("Api")["MANGO_MODEL_PROFILE"]))).toMatchObject(PROFILE);
  });

  test("is asked for by run-tool alone, within the deployment's domains", () => {
    expect(variable("MANGO_WEB_FETCH_FUNCTION")).toEqual(["RunTool"]);
    expect(variable("MANGO_WEB_FETCH_ALLOWED_DOMAINS")).toEqual(["RunTool"]);
    expect(variable("MANGO_WEB_FETCH_BLOCKED_DOMAINS")).toEqual(["RunTool"]);
    expect(ours("RunTool")).toMatchObject({
      MANGO_WEB_FETCH_FUNCTION: { Ref: functions["FetchPage"]?.id },
      MANGO_WEB_FETCH_ALLOWED_DOMAINS: "a.example,b.example",
      MANGO_WEB_FETCH_BLOCKED_DOMAINS: "c.b.example",
    });
  });

  test("is done by a function that is told the proxy and nothing else", () => {
    expect(ours("FetchPage")).toEqual({ MANGO_WEB_FETCH_PROXY: "https://proxy.example:3129" });
  });

  test("is not there by default, nor anything that is for it", () => {
    const usual = synthesise().service;
    const withoutIt = ourFunctions(usual);

    expect(Object.keys(withoutIt).sort()).toEqual(
      Object.keys(RIGHTS)
        .filter((name) => name !== "FetchPage")
        .sort(),
    );
    for (const fn of Object.values(withoutIt)) {
      expect(statements(usual, fn).flatMap(actions)).not.toContain("lambda:InvokeFunction");
      expect(Object.keys(fn.Properties.Environment.Variables).join()).not.toMatch(/WEB_FETCH|MODEL_PROFILE/);
    }
  });
});
