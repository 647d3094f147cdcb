import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GATEWAY_ANSWERS } from "./gateway-answers.ts";
import { ofType, ourFunctions, synthesise } from "./testing/synthesised.ts";

const { service } = synthesise();
const functions = ourFunctions(service);

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
      "ANY /v1/sessions/{session_id}/threads": "Api",
      "ANY /v1/sessions/{session_id}/threads/{thread_id}": "Api",
      "ANY /v1/sessions/{session_id}/threads/{thread_id}/{proxy+}": "Api",
      "ANY /v1/sessions/{session_id}/threads/{thread_id}/stream": "Api",
      "GET /v1/sessions/{session_id}/threads/{thread_id}/stream": "Stream",
      "ANY /v1/environments": "Api",
      "ANY /v1/environments/{environment_id}": "Api",
      "ANY /v1/environments/{environment_id}/{proxy+}": "Api",
      // Up to 20 s each: they must not keep the API's environments.
      "ANY /v1/environments/{environment_id}/healthcheck": "Work",
      "ANY /v1/environments/{environment_id}/work": "Work",
      "ANY /v1/environments/{environment_id}/work/{proxy+}": "Work",
    });
  });

  test("streams what the stream function answers, for 15 minutes, and nothing else", () => {
    const streamed = methods.filter(({ integration }) => integration.ResponseTransferMode === "STREAM");

    expect(streamed.map(({ route }) => route)).toEqual([
      "GET /v1/sessions/{session_id}/events/stream",
      "GET /v1/sessions/{session_id}/threads/{thread_id}/stream",
    ]);
    for (const { integration, uri } of streamed) {
      expect(integration.TimeoutInMillis).toBe(900_000);
      expect(uri).toContain("2021-11-15/functions/");
      expect(uri).toContain("/response-streaming-invocations");
    }
    expect(methods.filter(({ uri }) => uri.includes("response-streaming")).length).toBe(2);
  });

  test("streams every route that the OpenAPI document says is a stream", () => {
    const document = JSON.parse(readFileSync(new URL("../docs/openapi.json", import.meta.url), "utf8")) as {
      paths: Record<string, Record<string, { responses?: Record<string, { content?: object }> }>>;
    };
    const streams = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.entries(operations)
        .filter(([, operation]) => "text/event-stream" in (operation.responses?.["200"]?.content ?? {}))
        .map(([method]) => `${method.toUpperCase()} ${path}`),
    );

    expect(streams).toContain("GET /v1/sessions/{session_id}/events/stream");
    expect(
      methods.filter(({ integration }) => integration.ResponseTransferMode === "STREAM").map(({ route }) => route),
    ).toEqual(expect.arrayContaining(streams));
  });

  test("keeps no log for ever, the gateway's own included", () => {
    const [apiId] = ofType(service, "AWS::ApiGateway::RestApi").map(([id]) => id);
    const [[stageId, stage] = []] = ofType(service, "AWS::ApiGateway::Stage");
    const [[logId] = []] = ofType(service, "AWS::Logs::LogGroup").filter(
      ([, { Properties }]) =>
        JSON.stringify(Properties.LogGroupName) ===
        JSON.stringify({ "Fn::Join": ["", ["API-Gateway-Execution-Logs_", { Ref: apiId }, "/mango"]] }),
    );

    expect(stageId).toBeDefined();
    expect(stage?.Properties.StageName).toBe("mango");
    expect(stage?.DependsOn).toContain(logId);
    for (const [, { Properties }] of ofType(service, "AWS::Logs::LogGroup")) {
      expect(Properties.RetentionInDays).toBeGreaterThan(0);
    }
  });

  test("leaves the region's role for API Gateway's logs when it goes: other APIs may use it", () => {
    const [account] = ofType(service, "AWS::ApiGateway::Account").map(([, it]) => it);
    const role = account?.Properties.CloudWatchRoleArn["Fn::GetAtt"][0];

    expect([account?.DeletionPolicy, service[role]?.DeletionPolicy]).toEqual(["Retain", "Retain"]);
  });

  test("is Regional: at the edge a silent stream is cut after 30 seconds", () => {
    const [api] = ofType(service, "AWS::ApiGateway::RestApi").map(([, { Properties }]) => Properties);

    expect(api.EndpointConfiguration).toEqual({ Types: ["REGIONAL"] });
  });

  test("has the operator's own name, over TLS 1.2 at least", () => {
    const certificateArn = "arn:aws:acm:eu-central-1:123456789012:certificate/0a1b";
    const named = synthesise({ domainName: "api.example.com", certificateArn }).service;
    const [domain] = ofType(named, "AWS::ApiGateway::DomainName").map(([, { Properties }]) => Properties);

    expect(ofType(service, "AWS::ApiGateway::DomainName")).toEqual([]);
    expect(domain).toMatchObject({
      DomainName: "api.example.com",
      EndpointConfiguration: { Types: ["REGIONAL"] },
      RegionalCertificateArn: certificateArn,
      SecurityPolicy: "TLS_1_2",
    });
    expect(ofType(named, "AWS::ApiGateway::BasePathMapping")).toHaveLength(1);
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
      { DataTraceEnabled: false, HttpMethod: "*", LoggingLevel: "ERROR", ResourcePath: "/*" },
    ]);
    expect(stage.AccessLogSetting.Format).not.toMatch(/header|authorizer|apiKey|body/i);
    expect(stage.TracingEnabled).toBe(true);
  });
});
