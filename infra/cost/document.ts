import { ASSUMED, type Deployment, type Item, idleMonth, streamHour, total, turnCost, waitingWorker } from "./cost.ts";
import { MEASURED } from "./measured.ts";

/** The text of docs/cost.md. */
export function costDocument(deployments: { readonly usual: Deployment; readonly pausing: Deployment }): string {
  const { usual, pausing } = deployments;
  const { plain, tool } = MEASURED;
  return `# What it costs on AWS

Written by \`npm run cost\` from the templates, the counted states of a turn, and the list prices in
\`infra/cost/prices.ts\` (us-east-1, no free tier, no discount). The provider's own bill comes on top.

## A turn

Without tools a turn enters ${plain.statesEntered} states and writes ${plain.historyEvents} history events; with one call for a worker ${tool.statesEntered} and ${tool.historyEvents}.
Assumed: ${ASSUMED.answerSeconds} s for an answer of the provider, ${ASSUMED.handlerSeconds} s for any other handler, ${ASSUMED.liveWritesASecond} live messages a second, ${ASSUMED.workerRequests} requests of
the worker for a call, and a stream for the client and the worker each, the worker's for ${ASSUMED.workerIdleSeconds} s longer (\`--max-idle\`).
Cost does not grow with the session's age.

${table(
  ["in dollars, for 1,000 turns", "without tools", "one call"],
  columns(
    turnCost(usual, { states: plain.statesEntered, rounds: 1 }),
    turnCost(usual, { states: tool.statesEntered, rounds: 2 }),
    1000,
  ),
)}

## A month in which nothing happens

${table(["in dollars", "by default", "scaleToZero"], columns(idleMonth(usual), idleMonth(pausing), 1))}

Storage (Aurora, S3, logs) comes on top by the gigabyte. With \`scaleToZero\` the NAT is most of what is left; \`ownEgress\`
takes it away where there is another way out.

## A worker that waits

A worker that has nothing to do asks for work all the time, ${ASSUMED.pollSeconds} s each time, which keeps a Lambda. A month of one:

${table(
  ["in dollars", "a month"],
  [...waitingWorker(usual), sum(waitingWorker(usual))].map(({ what, dollars }) => [what, money(dollars)]),
)}

## A thousand open streams

Each open stream keeps a Lambda. An hour of a thousand, on quiet sessions:

${table(
  ["in dollars", "an hour"],
  [...streamHour(usual), sum(streamHour(usual))].map(({ what, dollars }) => [what, money(dollars)]),
)}

A client that only wants to know when a turn has ended polls the session's status more cheaply than it streams.
`;
}

const sum = (items: readonly Item[]): Item => ({ what: "**together**", dollars: total(items) });

function columns(first: readonly Item[], second: readonly Item[], times: number): string[][] {
  const [a, b] = [
    [...first, sum(first)],
    [...second, sum(second)],
  ];
  const cell = (items: readonly Item[], kind: string) => {
    const item = items.find(({ what }) => kindOf(what) === kind);
    return item === undefined ? "" : money(item.dollars * times);
  };
  return a.map(({ what }) => [kindOf(what), cell(a, kindOf(what)), cell(b, kindOf(what))]);
}

/** Without what differs between two deployments. */
const kindOf = (what: string) => what.replace(/, .* units$/, "");

function money(dollars: number): string {
  return dollars.toFixed(dollars < 1 ? 3 : 2);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${head.map((_, at) => (at === 0 ? "---" : "---:")).join("|")}|`, ...rows.map(line)].join("\n");
}
