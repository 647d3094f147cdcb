/** Secrets Manager, as far as GetSecretValue goes. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export async function startSecrets(
  secrets: ReadonlyMap<string, string>,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    void request.toArray().then((chunks) => {
      const { SecretId } = JSON.parse(Buffer.concat(chunks as Buffer[]).toString()) as { SecretId: string };
      const SecretString = secrets.get(SecretId);
      response.writeHead(SecretString === undefined ? 400 : 200, { "content-type": "application/x-amz-json-1.1" });
      response.end(
        JSON.stringify(SecretString === undefined ? { __type: "ResourceNotFoundException" } : { SecretString }),
      );
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
