#!/usr/bin/env node
/** The command `mango-worker`: finds the Node that we run on, and becomes the worker under it. */
process.argv.splice(2, 0, "worker/main.ts");
await import("../local/launch.mjs");
