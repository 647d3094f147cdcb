import { memoryStreamPlaces } from "./memory-stream-places.ts";
import { streamPlacesContract } from "./stream-places.testsuite.ts";

streamPlacesContract("the memory of one process", async (caps) => memoryStreamPlaces(caps));
