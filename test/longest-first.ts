import { BaseSequencer, type TestSpecification } from "vitest/node";

/** In this order. The crash sweep takes minutes: begun last, it would run alone at the end. */
const LONGEST = [
  "test/faults/crash-at-every-point",
  "test/worker/faults",
  "test/integration/restart",
  "test/worker/scenarios",
  "test/artifacts/deliveries",
  "test/artifacts/turn",
];

/** Begins the test files that take longest first, so that the workers end together; the rest in vitest's own order. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.findIndex((name) => moduleId.includes(name));
      return at === -1 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
