import { Validations } from "aws-cdk-lib";
import type { IConstruct } from "constructs";

/** A finding of cdk-nag that we leave as it is, and why. Beside what it is about, never for a whole stack. */
export function accept(construct: IConstruct, finding: string, reason: string): void {
  Validations.of(construct).acknowledge({ id: finding, reason });
}

/** How a finding names a policy of AWS's own. */
export function managedPolicy(name: string): string {
  return `Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/${name}`;
}
