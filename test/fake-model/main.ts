/** The fake endpoint as a process: `node test/fake-model/main.ts --port 0 [--fixed]`. Prints its URL as JSON. */
import { parseArgs } from "node:util";
import { startFakeModel } from "./server.ts";

const { values } = parseArgs({
  options: { port: { type: "string", default: "0" }, fixed: { type: "boolean", default: false } },
});
const model = await startFakeModel({
  port: Number(values.port),
  ...(values.fixed && { fixed: "The bench asked, and this is the answer." }),
});
console.log(JSON.stringify({ url: model.url }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void model.close());
