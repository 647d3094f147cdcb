/** The errors of the service model, by the names that clients see. */
export type ServiceErrorName =
  | "ExecutionAlreadyExists"
  | "ExecutionDoesNotExist"
  | "InvalidArn"
  | "InvalidExecutionInput"
  | "InvalidName"
  | "InvalidOutput"
  | "InvalidToken"
  | "RequestEntityTooLarge"
  | "SerializationException"
  | "ServiceUnavailable"
  | "StateMachineDoesNotExist"
  | "TaskTimedOut"
  | "UnknownOperationException"
  | "UnrecognizedClientException"
  | "ValidationException";

/** An answer other than success. Its message goes to the caller and quotes names and ARNs, never data. */
export class ServiceError extends Error {
  readonly type: ServiceErrorName;
  readonly status: number;

  constructor(type: ServiceErrorName, message: string, status = 400) {
    super(message);
    this.name = "ServiceError";
    this.type = type;
    this.status = status;
  }
}
