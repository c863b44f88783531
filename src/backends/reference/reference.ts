/** The oracle: every step is a call of the operator's own reference implementation, on plain JavaScript memory. Never fast. */
import { InsituError } from "../../base/error.js";
import { callReference } from "../../graph/call.js";
import { sharesBytes, View } from "../../tensor/view.js";
import type { Plan } from "../../plan/plan.js";
import type { Backend } from "../backend.js";
import type { Engine } from "../engine.js";
import { ProgramExecutor } from "../executor.js";

/** Memory of the JavaScript heap, calls of the reference implementation. */
const referenceEngine: Engine = {
  resultsInArena: false,
  allocate: (type, shape) => View.allocate(type, shape),
  allocateCaches: (_, caches) => caches.map(({ type, shape }) => View.allocate(type, shape)),
  free() {},
  // Memory of the heap is used again when nobody can see it any more.
  lend: (view) => view,
  arena(bytes) {
    try {
      const stretch = { buffer: new ArrayBuffer(bytes), start: 0 };
      return { at: () => stretch };
    } catch (cause) {
      throw new InsituError("out-of-memory", `the intermediate values need ${bytes} bytes, which cannot be allocated`, {
        cause,
      });
    }
  },
  stage: (_, view) => view,
  seat: () => undefined,
  call: (_, { node }, inputs, outputs, runBody) => callReference(node, inputs, outputs, [], runBody),
  repeat: () => undefined,
  describe: () => undefined,
  forget() {},
  overlap: sharesBytes,
  owns: () => false,
};

/** The oracle without anything around it: a plan, ready to run. */
export const prepareReference = (plan: Plan): ProgramExecutor => new ProgramExecutor(plan, referenceEngine);

/** Runs plans on the operators' own references. */
export const referenceBackend: Backend = {
  name: "reference",
  async open() {
    return { describe: () => [], prepare: prepareReference, release: async () => undefined };
  },
};
