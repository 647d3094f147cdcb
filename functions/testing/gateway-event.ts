import type { APIGatewayProxyEvent } from "aws-lambda";

/** A request as a REST API hands it to a Lambda function. */
export function gatewayEvent(
  method: string,
  path: string,
  fields: Partial<Pick<APIGatewayProxyEvent, "body" | "isBase64Encoded" | "multiValueHeaders">> & {
    readonly query?: Record<string, string[]>;
  } = {},
): APIGatewayProxyEvent {
  const { query, ...rest } = fields;
  return {
    httpMethod: method,
    path,
    body: null,
    isBase64Encoded: false,
    headers: {},
    multiValueHeaders: {},
    queryStringParameters: null,
    multiValueQueryStringParameters: query ?? null,
    pathParameters: null,
    stageVariables: null,
    resource: "/{proxy+}",
    requestContext: { requestId: "gateway-1", domainName: "id.execute-api.eu-central-1.amazonaws.com", stage: "mango" },
    ...rest,
  } as unknown as APIGatewayProxyEvent;
}
