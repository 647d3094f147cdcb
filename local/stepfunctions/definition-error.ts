/** A definition that this interpreter does not implement, or that Step Functions would refuse. */
export class DefinitionError extends Error {
  /** Where in the definition, as `/States/Route/Choices/0/Next`. */
  readonly path: string;

  constructor(path: string, problem: string) {
    super(`${path || "/"}: ${problem}`);
    this.name = "DefinitionError";
    this.path = path || "/";
  }
}
