import { Duration, RemovalPolicy } from "aws-cdk-lib";
import * as apigateway from "aws-cdk-lib/aws-apigateway";
import { Certificate } from "aws-cdk-lib/aws-certificatemanager";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";
import { accept, managedPolicy } from "./accepted-findings.ts";
import type { Functions } from "./functions.ts";
import { GATEWAY_ANSWERS } from "./gateway-answers.ts";
import type { Settings } from "./settings.ts";

type Target = "api" | "work" | "stream";

/** The stage of the API, which is the first part of its own address; a deployment's stage is in the API's name. */
const STAGE_NAME = "mango";

/**
 * Which function answers what. API Gateway takes the most specific path, and of a path that exists no other method
 * falls through to a greedy one above it; so wherever a path is named, everything beside and below it is named too.
 */
export const ROUTES: readonly (readonly [method: string, path: string, target: Target])[] = [
  ["ANY", "/", "api"],
  ["ANY", "/{proxy+}", "api"],
  ["ANY", "/v1", "api"],
  ["ANY", "/v1/{proxy+}", "api"],
  ["ANY", "/v1/sessions", "api"],
  ["ANY", "/v1/sessions/{session_id}", "api"],
  ["ANY", "/v1/sessions/{session_id}/{proxy+}", "api"],
  ["ANY", "/v1/sessions/{session_id}/events", "api"],
  ["ANY", "/v1/sessions/{session_id}/events/{proxy+}", "api"],
  ["GET", "/v1/sessions/{session_id}/events/stream", "stream"],
  ["ANY", "/v1/sessions/{session_id}/events/stream", "api"],
  ["ANY", "/v1/sessions/{session_id}/threads", "api"],
  ["ANY", "/v1/sessions/{session_id}/threads/{thread_id}", "api"],
  ["ANY", "/v1/sessions/{session_id}/threads/{thread_id}/{proxy+}", "api"],
  ["GET", "/v1/sessions/{session_id}/threads/{thread_id}/stream", "stream"],
  ["ANY", "/v1/sessions/{session_id}/threads/{thread_id}/stream", "api"],
  ["ANY", "/v1/environments", "api"],
  ["ANY", "/v1/environments/{environment_id}", "api"],
  ["ANY", "/v1/environments/{environment_id}/{proxy+}", "api"],
  // It waits for a worker, as a poll waits for work.
  ["ANY", "/v1/environments/{environment_id}/healthcheck", "work"],
  ["ANY", "/v1/environments/{environment_id}/work", "work"],
  ["ANY", "/v1/environments/{environment_id}/work/{proxy+}", "work"],
];

/** Written by the gateway for each request: who asked for what and how it went; no header and no body. */
const ACCESS_LOG = {
  requestId: "$context.requestId",
  ip: "$context.identity.sourceIp",
  time: "$context.requestTime",
  method: "$context.httpMethod",
  resource: "$context.resourcePath",
  status: "$context.status",
  latencyMs: "$context.responseLatency",
  error: "$context.error.responseType",
};

/** The REST API: Regional, because only there a silent stream may last longer than 30 seconds. */
export class Api extends Construct {
  readonly api: apigateway.RestApi;
  /** The API under the operator's own name. */
  readonly domain: apigateway.DomainName | undefined;

  constructor(scope: Construct, id: string, props: { readonly functions: Functions; readonly settings: Settings }) {
    super(scope, id);
    const { functions, settings } = props;
    const { certificateArn, domainName, stage } = settings;
    this.api = new apigateway.RestApi(this, "Rest", {
      restApiName: `mango-${stage}`,
      endpointTypes: [apigateway.EndpointType.REGIONAL],
      cloudWatchRole: true,
      // An account has one such role for a region, and other APIs may have come to need it.
      cloudWatchRoleRemovalPolicy: RemovalPolicy.RETAIN,
      deployOptions: {
        stageName: STAGE_NAME,
        tracingEnabled: true,
        // Its own log would hold headers, keys among them; ours is below.
        loggingLevel: apigateway.MethodLoggingLevel.ERROR,
        dataTraceEnabled: false,
        accessLogDestination: new apigateway.LogGroupLogDestination(
          new logs.LogGroup(this, "AccessLog", {
            retention: logs.RetentionDays.ONE_MONTH,
            removalPolicy: RemovalPolicy.DESTROY,
          }),
        ),
        accessLogFormat: apigateway.AccessLogFormat.custom(JSON.stringify(ACCESS_LOG)),
      },
    });
    // The gateway would make it by itself, to be kept for ever.
    const executionLog = new logs.LogGroup(this, "ExecutionLog", {
      logGroupName: `API-Gateway-Execution-Logs_${this.api.restApiId}/${STAGE_NAME}`,
      retention: logs.RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    this.api.deploymentStage.node.addDependency(executionLog);
    for (const answer of GATEWAY_ANSWERS) {
      this.api.addGatewayResponse(answer.type.responseType, answer);
    }

    const buffered = { scopePermissionToMethod: false } as const;
    const integrations: Record<Target, apigateway.Integration> = {
      api: new apigateway.LambdaIntegration(functions.api.function, buffered),
      work: new apigateway.LambdaIntegration(functions.work.function, buffered),
      stream: new apigateway.LambdaIntegration(functions.stream.function, {
        ...buffered,
        responseTransferMode: apigateway.ResponseTransferMode.STREAM,
        timeout: Duration.minutes(15),
      }),
    };
    for (const [method, path, target] of ROUTES) {
      this.api.root.resourceForPath(path).addMethod(method, integrations[target]);
    }

    this.domain =
      domainName === undefined || certificateArn === undefined
        ? undefined
        : this.api.addDomainName("Domain", {
            domainName,
            certificate: Certificate.fromCertificateArn(this, "Certificate", certificateArn),
            endpointType: apigateway.EndpointType.REGIONAL,
            securityPolicy: apigateway.SecurityPolicy.TLS_1_2,
          });

    const keys = "Keys are checked in the function, from either header; there is nothing that API Gateway could check.";
    accept(this.api, "AwsSolutions-APIG4", keys);
    accept(this.api, "AwsSolutions-COG4", keys);
    accept(this.api, "AwsSolutions-APIG2", "The function validates bodies and answers what is wrong in our envelope.");
    accept(this.api, "AwsSolutions-APIG3", "A firewall is the operator's choice; it attaches to this stage.");
    accept(
      this.api,
      `AwsSolutions-IAM4[${managedPolicy("AmazonAPIGatewayPushToCloudWatchLogs")}]`,
      "API Gateway's account-wide role for its logs has no narrower policy.",
    );
  }
}
