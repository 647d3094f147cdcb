/** The deployed edition's function failed or gave no answer; whether the command was carried out is unknown. */
export class OperatorFunctionError extends Error {
  override readonly name = "OperatorFunctionError";
}
