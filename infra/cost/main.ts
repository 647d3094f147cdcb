/** `npm run cost`: writes docs/cost.md. */
import { writeFileSync } from "node:fs";
import { synthesise } from "../testing/synthesised.ts";
import { deploymentOf } from "./deployment.ts";
import { costDocument } from "./document.ts";

const usual = deploymentOf(synthesise());
const pausing = deploymentOf(synthesise({ scaleToZero: "true" }));
writeFileSync(new URL("../../docs/cost.md", import.meta.url), costDocument({ usual, pausing }));
