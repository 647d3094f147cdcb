import type { Resources } from "../testing/synthesised.ts";
import { ofType, ourFunctions } from "../testing/synthesised.ts";
import type { Deployment } from "./cost.ts";

/** Reads from the templates what costs something. */
export function deploymentOf({ data, service }: { readonly data: Resources; readonly service: Resources }): Deployment {
  const functions = ourFunctions(service);
  const [cluster] = ofType(data, "AWS::RDS::DBCluster").map(([, { Properties }]) => Properties);
  const alarms = ofType(service, "AWS::CloudWatch::Alarm").map(([, { Properties }]) => Properties);
  return {
    memory: Object.fromEntries(Object.entries(functions).map(([name, fn]) => [name, fn.Properties.MemorySize])),
    minCapacity: cluster.ServerlessV2ScalingConfiguration.MinCapacity,
    proxied: ofType(data, "AWS::RDS::DBProxy").length > 0,
    natGateways: ofType(data, "AWS::EC2::NatGateway").length,
    keys: ofType(data, "AWS::KMS::Key").length,
    secrets: ofType(data, "AWS::SecretsManager::Secret").length,
    alarmMetrics: alarms.reduce(
      (sum, { Metrics }) =>
        sum + (Metrics === undefined ? 1 : Metrics.filter((it: { MetricStat?: unknown }) => it.MetricStat).length),
      0,
    ),
    dashboards: ofType(service, "AWS::CloudWatch::Dashboard").length,
    streamLifeSeconds: Number(functions["Stream"]?.Properties.Environment.Variables.MANGO_STREAM_LIFE_SECONDS),
  };
}
