/** SQS, as far as SendMessage goes. Messages wait until a test delivers them, so that no test waits for a delay. */
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface QueueService {
  readonly url: string;
  /** What was sent and not taken yet: the queue's URL and the message. */
  readonly messages: { readonly queue: string; readonly body: string }[];
  close(): Promise<void>;
}

export async function startQueues(): Promise<QueueService> {
  const messages: QueueService["messages"] = [];
  const server = createServer((request, response) => {
    void request.toArray().then((chunks) => {
      const { MessageBody, QueueUrl } = JSON.parse(Buffer.concat(chunks as Buffer[]).toString()) as {
        MessageBody: string;
        QueueUrl: string;
      };
      messages.push({ queue: QueueUrl, body: MessageBody });
      response.writeHead(200, { "content-type": "application/x-amz-json-1.0" });
      const MD5OfMessageBody = createHash("md5").update(MessageBody).digest("hex");
      response.end(JSON.stringify({ MessageId: randomUUID(), MD5OfMessageBody }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    messages,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
