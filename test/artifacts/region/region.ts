/**
 * A region in miniature: everything that the templates of a real `cdk synth` name, standing on this machine. Functions
 * are processes with their bundle and their variables; the database is PostgreSQL behind TLS and IAM tokens; DynamoDB is
 * dynalite; the state machine runs in the interpreter; API Gateway's routes answer over HTTP.
 *
 * A function is given what the template gives it. What it is told besides stands for what is outside the template in a
 * real region too: Lambda's own variables, the region's name service (`AWS_ENDPOINT_URL_…`), and the authorities that
 * Node trusts there.
 */
import { once } from "node:events";
import { chmod, mkdtemp, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { CreateTableCommand, DynamoDBClient, waitUntilTableExists } from "@aws-sdk/client-dynamodb";
import dynalite from "dynalite";
import pg from "pg";
import { generate } from "selfsigned";
import { type RdsProxy, startRdsProxy } from "../../../functions/testing/rds-proxy.ts";
import { type EmbeddedPostgres, startPostgres } from "../../../local/postgres/postgres.ts";
import { createStepFunctionsPool } from "../../../local/stepfunctions/pool.ts";
import { StepFunctions } from "../../../local/stepfunctions/step-functions.ts";
import { createPool } from "../../../shared/db/pool.ts";
import type { Log } from "../../../shared/ports/log.ts";
import { removeFolder } from "../../remove-folder.ts";
import { Assembly, type Existing, type Resource } from "./assembly.ts";
import { type EventServices, eventServices } from "./events.ts";
import { startInvokeApi } from "./invoke-api.ts";
import type { LambdaFunction } from "./lambda-environment.ts";
import { LambdaService } from "./lambda-service.ts";
import { ACCOUNT, arn, REGION } from "./names.ts";
import { type QueueService, startQueues } from "./queue.ts";
import { RestApi } from "./rest-api.ts";
import { startSecrets } from "./secrets.ts";
import { startThrottle, type Throttle } from "./throttle.ts";

/** The name that the deployment is given for the model's endpoint; here it leads to the test's own. */
const MODEL = "https://model.example";
/** Where Lambda keeps RDS's authority. */
const LAMBDA_AUTHORITIES = "/var/runtime/ca-cert.pem";
const MODEL_KEY = "sk-model-key-of-the-region";
const OWNER_PASSWORD = "owner-password-of-the-region";
const ACCESS_KEY = "AKIAREGIONINMINIATURE";

const unheard: Log = { debug() {}, info() {}, warn() {}, error() {} };

export interface Region {
  readonly assembly: Assembly;
  readonly lambda: LambdaService;
  readonly stepFunctions: StepFunctions;
  /** The API's base URL. */
  readonly url: string;
  readonly proxy: RdsProxy;
  readonly throttle: Throttle;
  readonly queues: QueueService;
  readonly events: EventServices;
  /** How often Step Functions invokes each task's function: Lambda may do so more than once. 1 by default. */
  readonly tasks: { invocations: number };
  /**
   * What EventBridge says of an execution that was stopped. One that ran out of time looks the same but for the word, and
   * the interpreter has no limit for a whole execution.
   */
  readonly stopped: { as: "ABORTED" | "TIMED_OUT" };
  /** To the product's database, past the proxy and with every right. */
  readonly administrator: pg.Pool;
  /** Names of our functions: `Api`, `CallModel`. */
  functionNamed(name: string): LambdaFunction;
  /** Everything in a log group or an execution that no secret may be in. */
  readonly secrets: readonly string[];
  close(): Promise<void>;
}

export interface RegionOptions {
  readonly modelUrl: string;
  readonly context?: Readonly<Record<string, string>>;
  /** More state machines, by name: definitions with the substitutions of the template's own. */
  readonly definitions?: Readonly<Record<string, string>>;
}

/** Deploys: the migrations have run when it resolves. Whatever was started is ended by `close`, or by a failure. */
export async function startRegion(options: RegionOptions): Promise<Region> {
  const undo: (() => unknown)[] = [];
  const close = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    return { ...(await deploy(options, undo)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function deploy(options: RegionOptions, undo: (() => unknown)[]): Promise<Omit<Region, "close">> {
  const directory = await mkdtemp(path.join(tmpdir(), "mango-region-"));
  undo.push(() => removeFolder(directory));
  await chmod(directory, 0o711);
  const assembly = await Assembly.synthesise(path.join(directory, "assembly"), {
    ...options.context,
    modelBaseUrl: MODEL,
  });

  const postgres = await startDatabases(directory);
  undo.push(() => postgres.stop());
  const administrator = createPool({ connectionString: postgres.connectionString, max: 4, log: unheard });
  undo.push(() => administrator.end());
  const tls = await generate([{ name: "commonName", value: "localhost" }], {
    days: 2,
    keySize: 2048,
    extensions: [
      { name: "basicConstraints", cA: true },
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "localhost" },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
  });
  const authority = path.join(directory, "authority.pem");
  await writeFile(authority, tls.cert);
  const proxy = await startRdsProxy(postgres.connectionString, {
    tls: { key: tls.private, cert: tls.cert },
    asTokensRole: true,
  });
  undo.push(() => proxy.close());

  const queues = await startQueues();
  undo.push(() => queues.close());
  const existing = names(proxy.port, queues.url);
  const secrets = await startSecrets(secretValues(assembly));
  undo.push(() => secrets.close());
  const dynamoDb = await startTables(assembly, existing);
  undo.push(() => dynamoDb.close());

  const addresses = { [MODEL]: options.modelUrl, [LAMBDA_AUTHORITIES]: authority };
  const functions = assembly
    .ofType("AWS::Lambda::Function")
    .map((resource) => lambdaFunction(assembly, resource, existing, addresses));

  const states = createStepFunctionsPool(withDatabase(postgres.connectionString, "states"));
  undo.push(() => states.end());
  const running: { lambda?: LambdaService; events?: EventServices } = {};
  const tasks = { invocations: 1 };
  const stopped: Region["stopped"] = { as: "ABORTED" };
  const stepFunctions = new StepFunctions({
    pool: states,
    log: unheard,
    accessKeyId: ACCESS_KEY,
    stateMachines: stateMachines(assembly, existing, options.definitions ?? {}),
    invoke: async (functionArn, payload) => {
      const calls = Array.from({ length: tasks.invocations }, () => called(running).call(functionArn, payload));
      // The state hears of the first; what becomes of a doubled invocation nobody learns.
      for (const doubled of calls.slice(1)) doubled.catch(() => {});
      return calls[0];
    },
    onExecutionClosed(execution) {
      const status = execution.status === "ABORTED" ? stopped.as : execution.status;
      void running.events?.executionClosed({ ...execution, status }).catch(() => {});
    },
  });
  await stepFunctions.start();
  undo.push(() => stepFunctions.stop());
  const throttle = await startThrottle(stepFunctions.endpoint);
  undo.push(() => throttle.close());

  const invokeApi = await startInvokeApi((nameOrArn, event) => called(running).invoke(nameOrArn, event));
  undo.push(() => invokeApi.close());

  const lambda = new LambdaService(functions, {
    PATH: process.env["PATH"] ?? "",
    AWS_REGION: REGION,
    AWS_LAMBDA_INITIALIZATION_TYPE: "on-demand",
    AWS_ACCESS_KEY_ID: ACCESS_KEY,
    AWS_SECRET_ACCESS_KEY: "secret",
    AWS_ENDPOINT_URL_LAMBDA: invokeApi.url,
    AWS_ENDPOINT_URL_SFN: throttle.url,
    AWS_ENDPOINT_URL_SQS: queues.url,
    AWS_ENDPOINT_URL_DYNAMODB: dynamoDb.url,
    AWS_ENDPOINT_URL_SECRETS_MANAGER: secrets.url,
    NODE_EXTRA_CA_CERTS: authority,
  });
  running.lambda = lambda;
  const events = eventServices(assembly, existing, lambda, queues);
  running.events = events;
  undo.push(() => lambda.stop());
  const functionNamed = (name: string) => {
    const found = functions.find((fn) => fn.name.includes(`${name}Function`) && !fn.name.includes("Provider"));
    if (found === undefined) throw new Error(`The template has no function ${name}.`);
    return found;
  };
  // What the provider framework does for the custom resource before any function of the release exists.
  await lambda.call(functionNamed("Migrate").name, { RequestType: "Create" });

  const api = new RestApi(assembly, existing, lambda);
  const url = await api.listen();
  undo.push(() => api.close());
  return {
    assembly,
    lambda,
    stepFunctions,
    url,
    proxy,
    throttle,
    queues,
    events,
    tasks,
    stopped,
    administrator,
    functionNamed,
    secrets: [MODEL_KEY, OWNER_PASSWORD],
  };
}

function called({ lambda }: { lambda?: LambdaService }): LambdaService {
  if (lambda === undefined) throw new Error("A state was entered before the functions were there.");
  return lambda;
}

/** The cluster as RDS makes it: one owner who is no superuser, and the role that lets tokens in. */
async function startDatabases(directory: string): Promise<EmbeddedPostgres> {
  const postgres = await startPostgres({
    dataDir: path.join(directory, "postgres"),
    settings: { fsync: "off", synchronous_commit: "off", full_page_writes: "off" },
  });
  const client = new pg.Client({ connectionString: postgres.connectionString });
  await client.connect();
  await client.query(`create role rds_iam; create role mango_owner login createrole password '${OWNER_PASSWORD}'`);
  await client.query("grant rds_iam to mango_owner with admin option");
  await client.query("alter database mango owner to mango_owner");
  await client.query("create database states");
  await client.end();
  return postgres;
}

function withDatabase(connectionString: string, database: string): string {
  const url = new URL(connectionString);
  url.pathname = database;
  return url.href;
}

const secretArn = (id: string) => arn("secretsmanager", `secret:${id}`);
const lambdaArn = (id: string) => arn("lambda", `function:${id}`);

function secretValues(assembly: Assembly): Map<string, string> {
  return new Map(
    assembly
      .ofType("AWS::SecretsManager::Secret")
      .map(({ id, Properties }) => [
        secretArn(id),
        Properties.GenerateSecretString?.SecretStringTemplate === undefined
          ? MODEL_KEY
          : JSON.stringify({ username: "mango_owner", password: OWNER_PASSWORD }),
      ]),
  );
}

/** What each resource is called here. The proxy is reached by name and the cluster by address: see `rds-proxy.ts`. */
function names(databasePort: number, queuesUrl: string): Existing {
  return ({ id, Type, Properties }, attribute) => {
    switch (`${Type} ${attribute}`) {
      case "AWS::RDS::DBProxy Endpoint":
        return "localhost";
      case "AWS::RDS::DBCluster Endpoint.Address":
        return "127.0.0.1";
      case "AWS::RDS::DBCluster Endpoint.Port":
        return String(databasePort);
      case "AWS::DynamoDB::Table ":
        return id;
      case "AWS::SecretsManager::Secret ":
        return secretArn(id);
      case "AWS::SecretsManager::SecretTargetAttachment ":
        return secretArn(Properties.SecretId.Ref);
      case "AWS::Lambda::Function Arn":
        return lambdaArn(id);
      case "AWS::Lambda::Function ":
        return id;
      case "AWS::StepFunctions::StateMachine ":
        return arn("states", `stateMachine:${Properties.StateMachineName}`);
      case "AWS::SQS::Queue ":
        return `${queuesUrl}/${ACCOUNT}/${id}`;
      case "AWS::SQS::Queue Arn":
        return arn("sqs", id);
      default:
        return undefined;
    }
  };
}

async function startTables(
  assembly: Assembly,
  existing: Existing,
): Promise<{ url: string; close(): Promise<unknown> }> {
  const server = dynalite({ createTableMs: 0 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: ACCESS_KEY, secretAccessKey: "secret" };
  const client = new DynamoDBClient({ endpoint: url, region: REGION, credentials });
  for (const table of assembly.ofType("AWS::DynamoDB::Table")) {
    const { AttributeDefinitions, BillingMode, KeySchema } = table.Properties;
    const TableName = existing(table, "");
    await client.send(new CreateTableCommand({ TableName, AttributeDefinitions, BillingMode, KeySchema }));
    await waitUntilTableExists({ client, maxWaitTime: 10, minDelay: 0.01, maxDelay: 0.1 }, { TableName });
  }
  client.destroy();
  return {
    url,
    close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      return closed;
    },
  };
}

function lambdaFunction(
  assembly: Assembly,
  { id, Properties, Metadata }: Resource,
  existing: Existing,
  addresses: Readonly<Record<string, string>>,
): LambdaFunction {
  const variables = assembly.resolve(Properties.Environment?.Variables ?? {}, existing) as Record<string, string>;
  return {
    name: id,
    arn: lambdaArn(id),
    folder: path.join(assembly.directory, Metadata?.["aws:asset:path"] ?? ""),
    handler: Properties.Handler,
    timeoutSeconds: Properties.Timeout,
    memory: Properties.MemorySize ?? 128,
    variables: Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, addresses[value] ?? value])),
  };
}

function stateMachines(assembly: Assembly, existing: Existing, more: Readonly<Record<string, string>>) {
  return assembly.ofType("AWS::StepFunctions::StateMachine").flatMap(({ Properties }) => {
    const substitutions = assembly.resolve(Properties.DefinitionSubstitutions, existing) as Record<string, string>;
    const definitions = { [Properties.StateMachineName]: Properties.DefinitionString, ...more };
    return Object.entries<string>(definitions).map(([name, definition]) => ({ name, definition, substitutions }));
  });
}
