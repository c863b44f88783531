// Runs one operator on the WASM backend, with several numbers of threads and both builds, beside the reference; tells which fast path was taken.
import { prepareReference } from "../../src/backends/reference/reference.js";
import type { BackendSession, Executable } from "../../src/backends/backend.js";
import { wasmBackend } from "../../src/backends/wasm/wasm.js";
import { seededRandom } from "../../src/graph/call.js";
import type { Op } from "../../src/graph/op.js";
import type { WasmKernel } from "../../src/wasm-kernels/wasm-kernel.js";
import { type AttributeInput, buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { wasmKernels } from "../../src/ops/wasm.js";
import { makePlan } from "../../src/plan/plan.js";
import { nodePlatform } from "../../src/platform/node.js";
import { graphOf } from "../../src/session/load.js";
import { isWide, readBigInts, readNumbers, writeBigInts, writeNumbers } from "../../src/tensor/access.js";
import { cloneView, contiguous, copyView } from "../../src/tensor/copy.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { bufferOn, runOn } from "../support/executable.js";

export const seed = Number(process.env["INSITU_SEED"] ?? 20_261_115);

/** One operand: its contents, and how it reaches the node. */
export interface Feed {
  readonly view: View;
  /** `fed` as it is; `constant`; `gaps`: a view of a larger buffer; `computed`: by a step before, so that its buffer may be taken over. */
  readonly as?: "fed" | "constant" | "gaps" | "computed";
}

export interface FastCall {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  readonly attrs?: Readonly<Record<string, AttributeInput>>;
  readonly inputs: readonly (Feed | undefined)[];
  /** Which outputs are asked for: one when left out. */
  readonly outputs?: readonly boolean[];
  /** Relative to the expected value, and absolute; what one rounding of the type may be off when left out. */
  readonly relative?: number;
  readonly absolute?: number;
}

/** A session whose fast paths are counted. */
export interface Variant {
  readonly name: string;
  readonly session: BackendSession;
  /** Fast paths recorded so far, by operator. */
  readonly taken: Map<string, number>;
}

export async function openVariant(threads: number, relaxedSimd: boolean, batchInvariant = false): Promise<Variant> {
  const taken = new Map<string, number>();
  const counted = (kernel: WasmKernel, { name }: Op): WasmKernel => ({
    ...kernel,
    record(call, recorder) {
      taken.set(name, (taken.get(name) ?? 0) + 1);
      kernel.record(call, recorder);
    },
  });
  const kernels = new Map([...wasmKernels].map(([op, list]) => [op, list.map((kernel) => counted(kernel, op))]));
  const session = await wasmBackend(kernels).open({
    platform: nodePlatform,
    threads,
    settings: { relaxedSimd },
    batchInvariant,
  });
  const alike = batchInvariant ? ", rows alike" : "";
  return { name: `${threads} threads, ${relaxedSimd ? "relaxed" : "plain"} SIMD${alike}`, session, taken };
}

const tensorOf = (view: View): Tensor => new Tensor(view.type, contiguous(view).data, view.shape);

/** The graph of one call. Operands that are `computed` are negated before, and their contents are taken negated. */
export function planOf(call: FastCall): ReturnType<typeof makePlan> {
  const { op, domain = "", opset = 24, attrs = {}, inputs, outputs = [true] } = call;
  const names = inputs.map((feed, at) => (feed === undefined ? undefined : `x${at}`));
  const computed = inputs.flatMap((feed, at) => (feed?.as === "computed" ? [node("Neg", [`n${at}`], [`x${at}`])] : []));
  const fed = inputs.flatMap((feed, at) =>
    feed === undefined || feed.as === "constant"
      ? []
      : [value(feed.as === "computed" ? `n${at}` : `x${at}`, feed.view.type, feed.view.shape)],
  );
  const made = outputs.map((wanted, at) => (wanted ? `y${at}` : undefined));
  return makePlan(
    graphOf(
      buildModel({
        opset: domain === "" ? opset : { "": 21, [domain]: 1 },
        inputs: fed,
        outputs: made.flatMap((name) => (name === undefined ? [] : [value(name)])),
        initializers: inputs.flatMap((feed, at) =>
          feed?.as === "constant" ? [initializer(`x${at}`, tensorOf(feed.view))] : [],
        ),
        nodes: [...computed, node(op, names, made, attrs, { domain, name: "subject" })],
      }),
    ),
    { pasts: "caller" },
  );
}

/** A view of `executable`'s memory with the contents of `view` and gaps in every dimension. */
export function withGaps(executable: Executable, view: View): View {
  const place = bufferOn(
    executable,
    view.type,
    view.shape.map((dim) => dim + 2),
  );
  const inner = view.shape.reduce((part, dim, axis) => part.slice(axis, 1, dim + 1), place);
  copyView(view, inner);
  return inner;
}

function fedViews(executable: Executable, { inputs }: FastCall): View[] {
  return inputs.flatMap((feed) => {
    if (feed === undefined || feed.as === "constant") return [];
    if (feed.as === "gaps") return [withGaps(executable, feed.view)];
    return [feed.as === "computed" ? negated(feed.view) : feed.view];
  });
}

function negated(view: View): View {
  const result = View.allocate(view.type, view.shape);
  if (isWide(view.type))
    writeBigInts(
      result,
      Array.from(readBigInts(view), (x) => -x),
    );
  else
    writeNumbers(
      result,
      Array.from(readNumbers(view), (x) => -x),
    );
  return result;
}

/** Half a step of a type, relative to the value: what a difference in the last digit of float32 may become by rounding. */
const steps: Readonly<Partial<Record<ElementType, number>>> = { float32: 1e-6, float16: 2 ** -10, bfloat16: 2 ** -7 };

/** An empty text where two views agree. */
export function differenceOf(actual: View, expected: View, relative?: number, absolute = 0): string {
  if (String(actual) !== String(expected)) return `got ${actual}, expected ${expected}`;
  if (isWide(actual.type))
    return readBigInts(actual).every((x, at) => x === readBigInts(expected)[at]) ? "" : "integers differ";
  const [a, b] = [readNumbers(actual), readNumbers(expected)];
  const share = relative ?? steps[actual.type] ?? 0;
  const least = actual.type === "float16" ? 6e-8 : 1e-37; // a step of the smallest numbers
  for (let at = 0; at < b.length; at++) {
    const [x, y] = [a[at], b[at]];
    // Where nothing may be off, not even the sign of zero is.
    const exact = relative === 0 && absolute === 0;
    if (exact ? Object.is(x, y) : x === y || (x !== x && y !== y)) continue;
    // Infinity is close to itself alone.
    if (!exact && Number.isFinite(x - y) && Math.abs(x - y) <= share * Math.abs(y) + absolute + least) continue;
    return `element ${at} of ${actual}: got ${x}, expected ${y}`;
  }
  return "";
}

/** Runs a call on the reference and on a variant: what differs, and how often the fast path was recorded. */
export async function tryCall(
  variant: Variant,
  call: FastCall,
): Promise<{ readonly difference: string; readonly taken: number }> {
  const plan = planOf(call);
  const executable = variant.session.prepare(plan);
  const views = fedViews(executable, call);
  const oracle = prepareReference(plan);
  const expected = await runOn(oracle, views);
  const before = variant.taken.get(call.op) ?? 0;
  const copies = views.map((view) => cloneView(view));
  let difference = "";
  for (let round = 0; round < 2 && difference === ""; round++) {
    const actual = await runOn(executable, views);
    for (const [output, view] of expected) {
      difference ||= differenceOf(actual.get(output)!, view, call.relative, call.absolute);
    }
    views.forEach((view, at) => (difference ||= differenceOf(view, copies[at], 0) && `feed ${at} was written`));
  }
  return { difference, taken: (variant.taken.get(call.op) ?? 0) - before };
}

/** Numbers for tests: mostly around 0, now and then large, tiny or special. */
export function randomView(
  random: () => number,
  type: ElementType,
  shape: readonly number[],
  options: { special?: boolean; spread?: number } = {},
): View {
  const { special = false, spread = 4 } = options;
  const view = View.allocate(type, shape);
  const specials = [0, -0, Infinity, -Infinity, NaN, 1e30, -1e30, 1e-30, 60000, -90, 88.5];
  const next = (): number => {
    if (special && random() < 0.1) return specials[Math.floor(random() * specials.length)];
    return (random() - 0.5) * 2 * spread;
  };
  if (isWide(type))
    writeBigInts(
      view,
      Array.from({ length: view.size }, () => BigInt(Math.floor(random() * 100))),
    );
  else writeNumbers(view, Array.from({ length: view.size }, next));
  return view;
}

export const randomFrom = (offset: number): (() => number) => seededRandom(seed + offset);
