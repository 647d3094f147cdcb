/** Building blocks of the definitions in tests. */

/** A machine text of these states. */
export function definitionOf(states: Readonly<Record<string, object>>): string {
  return JSON.stringify({ QueryLanguage: "JSONata", StartAt: Object.keys(states)[0], States: states });
}

/** A Task that calls a function with the state's input. */
export function task(functionName: string, fields: object): object {
  return {
    Type: "Task",
    Resource: "arn:aws:states:::lambda:invoke",
    Arguments: { FunctionName: functionName, Payload: "{% $states.input %}" },
    ...fields,
  };
}

/** A Task that hands its token to a function and waits. */
export function callbackTask(functionName: string, fields: object): object {
  return {
    Type: "Task",
    Resource: "arn:aws:states:::lambda:invoke.waitForTaskToken",
    Arguments: { FunctionName: functionName, Payload: { token: "{% $states.context.Task.Token %}" } },
    ...fields,
  };
}
