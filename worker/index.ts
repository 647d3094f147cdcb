export { EnvironmentWorker, type EnvironmentWorkerOptions } from "./environment-worker.ts";
export { type BwrapOptions, bwrapLauncher } from "./sandbox/bwrap-launcher.ts";
export type { LaunchedProcess, Launcher, LaunchRequest, Place, ProcessEnd, Sandbox } from "./sandbox/launcher.ts";
export { DEFAULT_LIMITS, type Limits } from "./sandbox/limits.ts";
export { processLauncher } from "./sandbox/process-launcher.ts";
export { type RunEnd, SessionToolRunner, type SessionToolRunnerOptions } from "./session-tool-runner.ts";
export { type ClaimedWork, WorkPoller, type WorkPollerOptions } from "./work-poller.ts";
