/** Prints what the emulator's Step Functions does where emulators have differed from AWS; a difference is no failure. */
import { terminalTable } from "../local/terminal-table.ts";
import { emulatedStepFunctions } from "./emulated-step-functions.ts";
import { findings } from "./parity.ts";

const found = await findings(await emulatedStepFunctions());
const rows = found.map(({ what, aws, here }) => [what, aws, here, aws === here ? "" : "differs"]);
process.stdout.write(terminalTable(["Step Functions", "AWS", "here", ""], rows));
