/** One case in ONNX's backend-test layout: a model, input and expected output tensors, tolerances. Runs on a given session maker. */
import { InsituError } from "#insitu/base/error.js";
import { readTensor } from "#insitu/onnx/read.js";
import { tensorView } from "#insitu/onnx/model.js";
import type { Session } from "#insitu/session/session.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import type { View } from "#insitu/tensor/view.js";
import { allowanceOf } from "./allowances.js";
import { difference, formDifference, type Tolerance, toleranceProblem } from "./compare.js";

/** The files of one case, read by whoever finds them. */
export interface CaseFiles {
  readonly name: string;
  /** The model's bytes, or its path where external data may lie beside it. */
  readonly model: Uint8Array | string;
  /** What meta.json says; anything may stand there. */
  readonly tolerance: Readonly<Partial<Record<keyof Tolerance, unknown>>>;
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

/** What a case says, else ONNX's defaults, with what it is allowed beyond them. Checked before it is used. */
function toleranceOf({ name, tolerance }: CaseFiles): Tolerance {
  const said = { ...defaults, ...tolerance } as Tolerance;
  const allowed = allowanceOf(name);
  return allowed === undefined || said.atol !== defaults.atol ? said : { ...said, atol: allowed.atol };
}

/** Runs one case. Never throws for what a case does. A case that compares nothing, or leaves an output out, has failed. */
export async function runCase(
  files: CaseFiles,
  create: (model: Uint8Array | string) => Promise<Session>,
): Promise<CaseResult> {
  const { name } = files;
  const tolerance = toleranceOf(files);
  const failed = (reason: string): CaseResult => ({ name, status: "failed", reason });
  let session: Session | undefined;
  try {
    session = await create(files.model);
    const wrong = toleranceProblem(tolerance);
    if (wrong !== undefined) return failed(`its tolerance: ${wrong}`);
    if (files.sets.length === 0) return failed("it has no test data: there is no test_data_set_0");
    let random: string | undefined;
    for (const [at, set] of files.sets.entries()) {
      const problem = filesProblem(session, set) ?? (await runSet(session, set, tolerance));
      if (typeof problem === "string") return failed(`test_data_set_${at}: ${problem}`);
      random ??= problem?.random;
    }
    return random === undefined ? { name, status: "passed" } : { name, status: "skipped", reason: random };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (error instanceof InsituError && notThere.has(error.code)) return { name, status: "skipped", reason };
    return failed(error instanceof InsituError ? `${error.code}: ${reason}` : `${reason} (not an InsituError)`);
  } finally {
    await session?.release();
  }
}

type DataSet = CaseFiles["sets"][number];

/** What is wrong with the files of a data set: as many outputs as the graph has, and no input or output that it does not have. */
function filesProblem(session: Session, set: DataSet | undefined): string | undefined {
  if (set === undefined) return "it is missing";
  if (session.outputNames.length === 0) return "the model has no outputs to compare";
  for (const [kind, given, names] of [
    ["input", set.inputs, session.inputNames],
    ["output", set.outputs, session.outputNames],
  ] as const) {
    for (let at = names.length; at < given.length; at++)
      if (given[at] !== undefined) return `${kind}_${at}.pb belongs to no ${kind}: the model has ${names.length}`;
  }
  const missing = session.outputNames.findIndex((_, at) => set.outputs[at] === undefined);
  return missing < 0 ? undefined : `output_${missing}.pb is missing, the values of "${session.outputNames[missing]}"`;
}

/** A sentence where a result is wrong; `random` where it differs in its values alone, and chance made them. */
async function runSet(
  session: Session,
  set: DataSet,
  tolerance: Tolerance,
): Promise<string | { readonly random: string } | undefined> {
  const feeds: Record<string, Tensor> = {};
  session.inputNames.forEach((input, at) => {
    const bytes = set.inputs[at];
    if (bytes !== undefined) feeds[input] = Tensor.fromView(readView(bytes));
  });
  const results = await session.run(feeds);
  let random: { readonly random: string } | undefined;
  for (const [at, output] of session.outputNames.entries()) {
    const [actual, expected] = [results[output].toView(), readView(set.outputs[at]!)];
    const form = formDifference(actual, expected);
    const problem = form ?? difference(actual, expected, tolerance);
    if (problem === undefined) continue;
    if (form !== undefined || !session.random) return `output "${output}": ${problem}`;
    random = { random: "its result is random" };
  }
  return random;
}

const readView = (bytes: Uint8Array): View => tensorView(readTensor(bytes));
