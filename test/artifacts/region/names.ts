/** Where this region is, as far as names go: the same as in the interpreter's ARNs. */
export const PARTITION = "aws";
export const REGION = "us-east-1";
export const ACCOUNT = "000000000000";

export const arn = (service: string, resource: string) =>
  `arn:${PARTITION}:${service}:${REGION}:${ACCOUNT}:${resource}`;
