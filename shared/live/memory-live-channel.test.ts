import { liveChannelContract } from "./live-channel.testsuite.ts";
import { memoryLiveChannel } from "./memory-live-channel.ts";

liveChannelContract("the memory of one process", async () => memoryLiveChannel());
