// Models of one node on the WebGPU backend beside the reference implementation: by which kernels they ran, and how far the results are apart. Pasts that a
// state holds are written in place, with whatever lies in their spare rows.
import { InferenceSession } from "../../../src/entry/node.js";
import { seededRandom } from "../../../src/graph/call.js";
import type { Platform } from "../../../src/base/platform.js";
import { type AttributeInput, buildModel, initializer, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import { readNumbers, writeNumbers } from "../../../src/tensor/access.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { View } from "../../../src/tensor/view.js";
import { largestDifference } from "../../support/compare.js";
import { PlacedSession } from "../../support/gpu.js";

/** A call of one node. An operand that is left out is undefined. */
export interface OneNode {
  readonly op: string;
  readonly domain?: string;
  readonly opset: number;
  readonly attrs?: Readonly<Record<string, AttributeInput>>;
  readonly inputs: readonly (View | undefined)[];
  /** Whether each output is asked for; the first alone where left out. */
  readonly outputs?: readonly boolean[];
  /** Inputs that are weights of the model, by position. */
  readonly constants?: readonly number[];
  /** Inputs that a state holds, by position, and the outputs that become them. */
  readonly held?: Readonly<Record<number, number>>;
}

/** An attention over a cache: `shared` heads of keys and values, of `capacity` rows. */
export interface AttentionForm {
  readonly size: number;
  readonly valueSize?: number;
  readonly heads: number;
  readonly shared: number;
  readonly queries: number;
  readonly capacity: number;
  readonly attrs?: OneNode["attrs"];
}

type BackendName = "reference" | "webgpu";

/** Numbers between −1 and 1 of a type. */
export function randomNumbers(random: () => number, type: ElementType, shape: readonly number[]): View {
  const view = View.allocate(type, shape);
  writeNumbers(
    view,
    Float64Array.from({ length: view.size }, () => 2 * random() - 1),
  );
  return view;
}

/** Whole numbers of a type. */
export function integers(type: "int64" | "int32", values: readonly number[], shape = [values.length]): View {
  return new Tensor(
    type,
    type === "int64" ? BigInt64Array.from(values, BigInt) : Int32Array.from(values),
    shape,
  ).toView();
}

export const randomFrom = (seed: number): (() => number) => seededRandom(seed);

function modelOf({
  op,
  domain = "",
  opset,
  attrs = {},
  inputs,
  constants = [],
  outputs = [true],
}: OneNode): Uint8Array {
  const names = inputs.map((view, at) => (view === undefined ? "" : `x${at}`));
  const results = outputs.map((wanted, at) => (wanted ? `y${at}` : ""));
  return writeModel(
    buildModel({
      opset: domain === "" ? opset : { "": 24, [domain]: opset },
      inputs: inputs.flatMap((view, at) =>
        view === undefined || constants.includes(at) ? [] : [value(`x${at}`, view.type, [...view.shape])],
      ),
      initializers: inputs.flatMap((view, at) =>
        view !== undefined && constants.includes(at) ? [initializer(`x${at}`, Tensor.fromView(view))] : [],
      ),
      outputs: results.filter((name) => name !== "").map((name) => value(name)),
      nodes: [node(op, names, results, attrs, { name: "node", domain })],
    }),
  );
}

interface Outcome {
  readonly results: ReadonlyMap<string, View>;
  readonly explanation: string;
}

async function runOn(backend: BackendName, call: OneNode, options: object, place?: Platform): Promise<Outcome> {
  const { inputs, constants = [], held = {} } = call;
  const session =
    place === undefined
      ? await InferenceSession.create(modelOf(call), { backend, ...options })
      : await PlacedSession.on(place, modelOf(call), { backend, ...options });
  try {
    const feeds: Record<string, Tensor> = {};
    const state =
      Object.keys(held).length === 0
        ? undefined
        : session.createState({
            pairs: Object.fromEntries(Object.entries(held).map(([at, to]) => [`x${at}`, `y${to}`])),
          });
    inputs.forEach((view, at) => {
      if (view === undefined || constants.includes(at)) return;
      if (held[at] === undefined) feeds[`x${at}`] = Tensor.fromView(view);
      else state!.set(`x${at}`, Tensor.fromView(view));
    });
    const run = await session.run(feeds, state && { state });
    const results = new Map(Object.entries(run).map(([name, tensor]) => [name, tensor.toView()]));
    if (state !== undefined)
      for (const at of Object.keys(held)) {
        const cache = state.get(`x${at}`);
        results.set(`x${at}`, new Tensor(cache.type, await cache.getData(), cache.dims).toView());
      }
    return { results, explanation: session.explain() };
  } finally {
    await session.release();
  }
}

/** Runs a call on both; an empty string, or what is wrong. `kernels` must all have run, by name; `place` has a GPU of its own. */
export async function differenceOf(
  call: OneNode,
  kernels: readonly string[],
  tolerance: number,
  options: object = {},
  place?: Platform,
): Promise<string> {
  const wanted = await runOn("reference", call, {});
  const { results, explanation } = await runOn("webgpu", call, options, place);
  for (const name of kernels)
    if (!new RegExp(`by [\\w, ]*\\b${name}\\b`).test(explanation)) return `${name} was not taken: ${explanation}`;
  for (const [name, view] of wanted.results) {
    const other = results.get(name);
    if (other === undefined) return `${name} is missing`;
    const apart = largestDifference(readNumbers(other), readNumbers(view));
    if (!(apart <= tolerance)) return `${name} ${String(view)}: ${apart} apart`;
  }
  return "";
}

/** The first output on WebGPU, as numbers; fails unless the explanation matches. */
export async function numbersOf(call: OneNode, explained: RegExp = /by /): Promise<ArrayLike<number>> {
  const { results, explanation } = await runOn("webgpu", call, {});
  if (!explained.test(explanation)) throw new Error(`${explained} was not taken: ${explanation}`);
  return readNumbers(results.get("y0")!);
}
