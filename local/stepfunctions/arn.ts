/** Names of state machines and executions, in the form of AWS. Region and account are of no consequence here. */

export const REGION = "us-east-1";
const PREFIX = `arn:aws:states:${REGION}:000000000000`;

export function stateMachineArn(stateMachine: string): string {
  return `${PREFIX}:stateMachine:${stateMachine}`;
}

export function executionArn(stateMachine: string, name: string): string {
  return `${PREFIX}:execution:${stateMachine}:${name}`;
}

export function isStateMachineArn(arn: string): boolean {
  return /^arn:aws:states:[a-z0-9-]+:\d{12}:stateMachine:[^:]+$/.test(arn);
}

export function isExecutionArn(arn: string): boolean {
  return /^arn:aws:states:[a-z0-9-]+:\d{12}:execution:[^:]+:[^:]+$/.test(arn);
}
