/** A machine with one place for each way to stand when the process is killed. */

import { callbackTask, definitionOf, task } from "./sample-states.ts";

export const RECOVERY_KINDS = ["task", "parked", "submitting", "wait", "backoff", "map"] as const;

const END = { End: true };
const PAYLOAD = { Output: "{% $states.result.Payload %}", End: true };

export const RECOVERY_DEFINITION = definitionOf({
  First: task("first", {
    Assign: { kept: "{% $states.result.Payload.kind %}" },
    Output: "{% $states.input %}",
    Next: "Kind",
  }),
  Kind: {
    Type: "Choice",
    Choices: RECOVERY_KINDS.map((kind) => ({ Condition: `{% $kept = '${kind}' %}`, Next: kind })),
  },
  task: task("hang", PAYLOAD),
  parked: callbackTask("park", { TimeoutSeconds: 3_600, ...END }),
  submitting: callbackTask("hang", END),
  wait: { Type: "Wait", Seconds: 3_600, Output: "{% 'waited as ' & $kept %}", ...END },
  backoff: task("flaky", {
    Arguments: { FunctionName: "flaky", Payload: "{% $states.context.State.RetryCount %}" },
    Retry: [{ ErrorEquals: ["States.ALL"], IntervalSeconds: 3_600, MaxAttempts: 1 }],
    ...PAYLOAD,
  }),
  map: {
    Type: "Map",
    // Two at a time: the first is done, the next two stand when the process is killed, the last has not begun.
    Items: ["done", "running", "parked", "later"],
    MaxConcurrency: 2,
    ItemProcessor: {
      StartAt: "Item",
      States: {
        Item: {
          Type: "Choice",
          Choices: [
            { Condition: "{% $states.input = 'running' %}", Next: "ItemHangs" },
            { Condition: "{% $states.input = 'parked' %}", Next: "ItemParks" },
          ],
          Default: "ItemRuns",
        },
        ItemHangs: task("hang", PAYLOAD),
        ItemParks: callbackTask("park", END),
        ItemRuns: task("item", { Output: "{% $states.result.Payload & ' as ' & $kept %}", ...END }),
      },
    },
    ...END,
  },
});
