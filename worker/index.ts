export { EnvironmentWorker, type EnvironmentWorkerOptions } from "./environment-worker.ts";
export type { LaunchedProcess, Launcher, LaunchRequest, ProcessEnd } from "./launcher.ts";
export { processLauncher } from "./process-launcher.ts";
export { type RunEnd, SessionToolRunner, type SessionToolRunnerOptions } from "./session-tool-runner.ts";
export { type ClaimedWork, WorkPoller, type WorkPollerOptions } from "./work-poller.ts";
