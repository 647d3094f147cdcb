/** The API as the unmodified AWS client sees it, and what it keeps from everyone else. */

import {
  DescribeExecutionCommand,
  ListExecutionsCommand,
  SFNClient,
  StartExecutionCommand,
  type StartExecutionCommandInput,
  StopExecutionCommand,
} from "@aws-sdk/client-sfn";
import { describe, expect, it } from "vitest";
import { ManualClock, useHarness } from "./harness.ts";
import { callbackTask } from "./sample-states.ts";

const harness = useHarness();

const PARKED = { P: callbackTask("park", { End: true }) };
const PASS = { A: { Type: "Pass", End: true } };
const functions = { park: () => undefined };
const MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:machine";
const EXECUTION = "arn:aws:states:us-east-1:000000000000:execution:machine:";

describe("StartExecution", () => {
  it("answers with the ARN and the date", async () => {
    const clock = new ManualClock(Date.UTC(2026, 4, 6, 7, 8, 9, 123));
    const { client } = await harness({ states: PASS, clock });
    const command = new StartExecutionCommand({ stateMachineArn: MACHINE, name: "turn_1-1", input: "{}" });
    expect(await client.send(command)).toMatchObject({
      executionArn: `${EXECUTION}turn_1-1`,
      startDate: new Date("2026-05-06T07:08:09.123Z"),
    });
  });

  it("makes up a name, and takes no input for an empty object", async () => {
    const { client, ended } = await harness({ states: PASS });
    const { executionArn = "" } = await client.send(new StartExecutionCommand({ stateMachineArn: MACHINE }));
    expect(executionArn).toMatch(/:execution:machine:[0-9a-f-]{36}$/);
    expect(await ended(executionArn)).toMatchObject({ status: "SUCCEEDED", output: {} });
  });

  it("finds the running execution of the same name and input", async () => {
    const clock = new ManualClock();
    const calls: unknown[] = [];
    const { client } = await harness({
      states: PARKED,
      clock,
      functions: { park: (payload) => void calls.push(payload) },
    });
    const start = (input: string) =>
      client.send(new StartExecutionCommand({ stateMachineArn: MACHINE, name: "n", input }));
    const first = await start('{"a":1}');
    clock.advance(5_000);
    const second = await start('{ "a": 1 }');
    expect(second).toMatchObject({ executionArn: first.executionArn, startDate: first.startDate });
    await expect(start('{"a":2}')).rejects.toMatchObject({
      name: "ExecutionAlreadyExists",
      message: `Execution Already Exists: '${EXECUTION}n'`,
      $metadata: { httpStatusCode: 400 },
    });
    expect(calls).toHaveLength(1);
  });

  it("refuses the name of a closed execution, whatever the input", async () => {
    const { start, ended } = await harness({ states: PASS });
    await ended(await start({}, "n"));
    await expect(start({}, "n")).rejects.toMatchObject({ name: "ExecutionAlreadyExists" });
  });

  it("starts one execution for many requests at once", async () => {
    const calls: unknown[] = [];
    const { start } = await harness({ states: PARKED, functions: { park: (payload) => void calls.push(payload) } });
    const arns = await Promise.all(Array.from({ length: 8 }, () => start({ a: 1 }, "n")));
    expect(new Set(arns)).toEqual(new Set([`${EXECUTION}n`]));
    expect(calls).toHaveLength(1);
  });

  it.each<[string, Partial<StartExecutionCommandInput>, string]>([
    ["a name with a space", { name: "a b" }, "InvalidName"],
    ["a name with a colon", { name: "a:b" }, "InvalidName"],
    ["a name with a control character", { name: "a\u0007" }, "InvalidName"],
    ["an empty name", { name: "" }, "InvalidName"],
    ["a name of 81 characters", { name: "x".repeat(81) }, "InvalidName"],
    ["input that is no JSON", { input: "{'a':1}" }, "InvalidExecutionInput"],
    ["input above 256 KiB", { input: JSON.stringify("x".repeat(262_143)) }, "ValidationException"],
    ["text that is no ARN", { stateMachineArn: "machine" }, "InvalidArn"],
    ["the ARN of an execution", { stateMachineArn: `${EXECUTION}x` }, "InvalidArn"],
    ["an unknown machine", { stateMachineArn: `${MACHINE}2` }, "StateMachineDoesNotExist"],
    ["a machine elsewhere", { stateMachineArn: MACHINE.replace("us-east-1", "eu-west-1") }, "StateMachineDoesNotExist"],
  ])("refuses %s", async (_, request, name) => {
    const { client } = await harness({ states: PASS });
    const command = new StartExecutionCommand({ stateMachineArn: MACHINE, ...request });
    await expect(client.send(command)).rejects.toMatchObject({ name, $metadata: { httpStatusCode: 400 } });
  });

  it("takes a name of 80 characters and input of 256 KiB", async () => {
    const { start, ended } = await harness({ states: { A: { Type: "Succeed", Output: 1 } } });
    expect(await ended(await start("x".repeat(262_142), "x".repeat(80)))).toMatchObject({ output: 1 });
  });
});

describe("DescribeExecution", () => {
  it("tells of a running execution", async () => {
    const clock = new ManualClock();
    const { client, start } = await harness({ states: PARKED, clock, functions });
    const executionArn = await start({ a: 1 }, "n");
    expect(await client.send(new DescribeExecutionCommand({ executionArn }))).toEqual({
      $metadata: expect.anything(),
      executionArn: `${EXECUTION}n`,
      stateMachineArn: MACHINE,
      name: "n",
      status: "RUNNING",
      startDate: new Date("2026-01-01T00:00:00.000Z"),
      input: '{"a":1}',
      inputDetails: { included: true },
      redriveCount: 0,
      redriveStatus: "NOT_REDRIVABLE",
    });
  });

  it("does not know others", async () => {
    const { client } = await harness({ states: PASS });
    const describe = (executionArn: string) => client.send(new DescribeExecutionCommand({ executionArn }));
    await expect(describe(`${EXECUTION}x`)).rejects.toMatchObject({ name: "ExecutionDoesNotExist" });
    await expect(describe(MACHINE)).rejects.toMatchObject({ name: "InvalidArn" });
  });
});

describe("StopExecution", () => {
  it("aborts, and answers the same when asked again", async () => {
    const clock = new ManualClock();
    const { client, start, stepFunctions } = await harness({ states: PARKED, clock, functions });
    const executionArn = await start();
    clock.advance(1_500);
    const stop = () => client.send(new StopExecutionCommand({ executionArn, error: "E", cause: "why" }));
    expect(await stop()).toMatchObject({ stopDate: new Date("2026-01-01T00:00:01.500Z") });
    clock.advance(1_000);
    expect(await stop()).toMatchObject({ stopDate: new Date("2026-01-01T00:00:01.500Z") });
    expect(await client.send(new DescribeExecutionCommand({ executionArn }))).toMatchObject({
      status: "ABORTED",
      error: "E",
      cause: "why",
    });
    expect(await stepFunctions.counters(executionArn)).toMatchObject({ statesEntered: 1 });
  });

  it("ignores the answer of the function that was running", async () => {
    const running = Promise.withResolvers<void>();
    const calls: string[] = [];
    const { client, start } = await harness({
      states: { P: callbackTask("slow", { Next: "N" }), N: callbackTask("next", { End: true }) },
      functions: {
        slow: () => running.promise,
        next: () => void calls.push("next"),
      },
    });
    const executionArn = await start();
    await client.send(new StopExecutionCommand({ executionArn }));
    running.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(calls).toEqual([]);
    expect(await client.send(new DescribeExecutionCommand({ executionArn }))).toMatchObject({ status: "ABORTED" });
  });
});

describe("access", () => {
  it("needs the access key id of this instance", async () => {
    const { stepFunctions } = await harness({ states: PASS });
    const credentials = {
      accessKeyId: "AKIAIOSFODNN7EXAMPLE",
      secretAccessKey: stepFunctions.credentials.secretAccessKey,
    };
    const stranger = new SFNClient({ ...stepFunctions.clientConfiguration, credentials });
    const request = new StartExecutionCommand({ stateMachineArn: MACHINE });
    await expect(stranger.send(request)).rejects.toMatchObject({
      name: "UnrecognizedClientException",
      $metadata: { httpStatusCode: 403, attempts: 1 },
    });
    stranger.destroy();
  });

  it.each([undefined, "", "AWS4-HMAC-SHA256 Credential=/20260101/us-east-1/states/aws4_request"])(
    "is refused with the authorization %j",
    async (authorization) => {
      const { stepFunctions } = await harness({ states: PASS });
      const response = await fetch(stepFunctions.endpoint, {
        method: "POST",
        headers: {
          "x-amz-target": "AWSStepFunctions.StartExecution",
          ...(authorization === undefined ? {} : { authorization }),
        },
        body: "{}",
      });
      expect(response.status).toBe(403);
      expect(await response.json()).toMatchObject({ __type: "UnrecognizedClientException" });
    },
  );

  it("is on loopback only, with a key id that cannot be guessed", async () => {
    const { stepFunctions } = await harness({ states: PASS });
    expect(stepFunctions.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(stepFunctions.credentials.accessKeyId).toMatch(/^AKIA[0-9A-F]{40}$/);
  });
});

describe("requests that make no sense", () => {
  it("name an action that is not there", async () => {
    const { client } = await harness({ states: PASS });
    await expect(client.send(new ListExecutionsCommand({ stateMachineArn: MACHINE }))).rejects.toMatchObject({
      name: "UnknownOperationException",
    });
  });

  it.each<[string, string, number, string]>([
    ["are no JSON", "{", 400, "SerializationException"],
    ["have a member of another type", '{"stateMachineArn":1}', 400, "SerializationException"],
    ["lack a member", "{}", 400, "ValidationException"],
    ["are too large", " ".repeat(1_048_577), 413, "RequestEntityTooLarge"],
  ])("%s", async (_, body, status, type) => {
    const { stepFunctions } = await harness({ states: PASS, accessKeyId: "known" });
    const response = await fetch(stepFunctions.endpoint, {
      method: "POST",
      headers: {
        "x-amz-target": "AWSStepFunctions.StartExecution",
        authorization: "AWS4-HMAC-SHA256 Credential=known/x",
      },
      body,
    });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ __type: type });
  });
});
