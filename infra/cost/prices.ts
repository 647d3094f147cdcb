/**
 * AWS's list prices in US dollars, us-east-1, without free tiers and discounts, as generally published in 2026. They
 * are literals and grow old: compare them with the pages named here before relying on a sum.
 */
export const PRICES = {
  /** https://aws.amazon.com/step-functions/pricing: Standard, each state entered, retries too. */
  stateTransition: 0.025 / 1000,
  /** https://aws.amazon.com/lambda/pricing: arm64. */
  lambdaGbSecond: 0.0000133334,
  lambdaRequest: 0.2 / 1e6,
  /** https://aws.amazon.com/api-gateway/pricing: REST. */
  apiRequest: 3.5 / 1e6,
  /** https://aws.amazon.com/dynamodb/pricing/on-demand: a write of up to 1 KB, a read of up to 4 KB. */
  dynamoWrite: 0.625 / 1e6,
  dynamoRead: 0.125 / 1e6,
  /** https://aws.amazon.com/sqs/pricing: standard queues; a look that finds nothing is a request too. */
  queueRequest: 0.4 / 1e6,
  /** https://aws.amazon.com/rds/aurora/pricing: Serverless v2, standard storage. */
  auroraAcuHour: 0.12,
  /** https://aws.amazon.com/rds/proxy/pricing: Serverless v2, for at least eight units. */
  proxyAcuHour: 0.015,
  proxyLeastAcus: 8,
  /** https://aws.amazon.com/vpc/pricing: a NAT gateway and its public address. */
  natHour: 0.045,
  publicAddressHour: 0.005,
  /** https://aws.amazon.com/kms/pricing, https://aws.amazon.com/secrets-manager/pricing. */
  keyMonth: 1,
  secretMonth: 0.4,
  /** https://aws.amazon.com/cloudwatch/pricing: each metric an alarm looks at, each metric of our own, a dashboard. */
  alarmMetricMonth: 0.1,
  customMetricMonth: 0.3,
  dashboardMonth: 3,
} as const;

export const HOURS_A_MONTH = 730;
