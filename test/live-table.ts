import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { CreateTableCommand, DynamoDBClient, waitUntilTableExists } from "@aws-sdk/client-dynamodb";
import dynalite from "dynalite";

/** A DynamoDB of one test file, for tables with the keys of the live table. */
export interface LiveTables {
  readonly endpoint: string;
  readonly client: DynamoDBClient;
  /** Makes an empty one; its name. */
  empty(): Promise<string>;
  close(): Promise<void>;
}

export function dynamoDbAt(endpoint: string): DynamoDBClient {
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  return new DynamoDBClient({ endpoint, region: "eu-central-1", credentials, maxAttempts: 1 });
}

export async function liveTables(): Promise<LiveTables> {
  const server = dynalite({ createTableMs: 0 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = dynamoDbAt(endpoint);
  let made = 0;
  return {
    endpoint,
    client,
    async empty() {
      made += 1;
      const TableName = `live${made}`;
      await client.send(
        new CreateTableCommand({
          TableName,
          BillingMode: "PAY_PER_REQUEST",
          AttributeDefinitions: [
            { AttributeName: "topic", AttributeType: "S" },
            { AttributeName: "at", AttributeType: "S" },
          ],
          KeySchema: [
            { AttributeName: "topic", KeyType: "HASH" },
            { AttributeName: "at", KeyType: "RANGE" },
          ],
        }),
      );
      await waitUntilTableExists({ client, maxWaitTime: 10, minDelay: 0.01, maxDelay: 0.1 }, { TableName });
      return TableName;
    },
    async close() {
      client.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
