/** One case in ONNX's backend-test layout: a model, input and expected output tensors, tolerances. Runs on a given session maker. */
import { InsituError } from "../base/error.js";
import { readTensor } from "../onnx/read.js";
import { tensorView } from "../onnx/model.js";
import type { Session } from "../session/session.js";
import { Tensor } from "../tensor/tensor.js";
import type { View } from "../tensor/view.js";
import { difference, type Tolerance } from "./compare.js";

/** The files of one case, read by whoever finds them. */
export interface CaseFiles {
  readonly name: string;
  /** The model's bytes, or its path where external data may lie beside it. */
  readonly model: Uint8Array | string;
  readonly tolerance: Partial<Tolerance>;
  /** Tensors by index; undefined where a file is missing. */
  readonly sets: readonly {
    readonly inputs: readonly (Uint8Array | undefined)[];
    readonly outputs: readonly (Uint8Array | undefined)[];
  }[];
}

/** What became of a case. */
export interface CaseResult {
  readonly name: string;
  readonly status: "passed" | "failed" | "skipped";
  /** Why it failed or was skipped. */
  readonly reason?: string;
}

/** ONNX's own defaults. */
const defaults: Tolerance = { rtol: 1e-3, atol: 1e-7 };

/** Errors that mean "insitu does not have this", not "insitu has it wrong". */
const notThere = new Set<unknown>(["unsupported-operator", "unsupported-type", "unsupported-opset"]);

/** Runs one case. Never throws for what a case does. */
export async function runCase(
  files: CaseFiles,
  create: (model: Uint8Array | string) => Promise<Session>,
): Promise<CaseResult> {
  const { name } = files;
  let session: Session | undefined;
  try {
    session = await create(files.model);
    if (files.sets.length === 0) return { name, status: "skipped", reason: "it has no test data" };
    for (const set of files.sets) {
      const problem = await runSet(session, set, { ...defaults, ...files.tolerance });
      if (problem === undefined) continue;
      if (session.random) return { name, status: "skipped", reason: "its result is random" };
      return { name, status: "failed", reason: problem };
    }
    return { name, status: "passed" };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (error instanceof InsituError && notThere.has(error.code)) return { name, status: "skipped", reason };
    return {
      name,
      status: "failed",
      reason: error instanceof InsituError ? `${error.code}: ${reason}` : `${reason} (not an InsituError)`,
    };
  } finally {
    await session?.release();
  }
}

async function runSet(
  session: Session,
  set: CaseFiles["sets"][number],
  tolerance: Tolerance,
): Promise<string | undefined> {
  const feeds: Record<string, Tensor> = {};
  session.inputNames.forEach((input, at) => {
    const bytes = set.inputs[at];
    if (bytes !== undefined) feeds[input] = Tensor.fromView(readView(bytes));
  });
  const results = await session.run(feeds);
  for (const [at, output] of session.outputNames.entries()) {
    const bytes = set.outputs[at];
    if (bytes === undefined) continue;
    const problem = difference(results[output].toView(), readView(bytes), tolerance);
    if (problem !== undefined) return `output "${output}": ${problem}`;
  }
  return undefined;
}

const readView = (bytes: Uint8Array): View => tensorView(readTensor(bytes));
