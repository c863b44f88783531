// Runs one operator that updates caches in place, on WASM and on the reference implementation; tells whether its fast path was taken.
import { makePlan } from "../../src/plan/plan.js";
import { type AttributeInput, buildModel, node, value } from "../../src/onnx/build.js";
import { graphOf } from "../../src/session/load.js";
import { bytesOf } from "../../src/ops/shared/paged/layouts.js";
import { copyView } from "../../src/tensor/copy.js";
import type { View } from "../../src/tensor/view.js";
import type { Variant } from "../wasm/fast-path.js";
import { call } from "./attention-case.js";
import { bufferOn, runOn } from "../support/executable.js";

/** A call; output k updates the input `caches[k]`. */
export interface InPlaceCall {
  readonly op: string;
  readonly attrs: Readonly<Record<string, number | string>>;
  readonly inputs: readonly (View | undefined)[];
  readonly caches: readonly number[];
}

/** The caches after the reference implementation ran on copies. */
export const slowly = ({ op, attrs, inputs, caches }: InPlaceCall): View[] =>
  call(
    "insitu",
    op,
    1,
    attrs,
    inputs,
    caches.map(() => true),
  ) as View[];

/** The caches after one run on WASM, in place. */
export async function inPlace(
  variant: Variant,
  { op, attrs, inputs, caches }: InPlaceCall,
): Promise<{ readonly caches: readonly View[]; readonly taken: boolean }> {
  const given = inputs.flatMap((view, at) => (view === undefined ? [] : [{ view, at }]));
  const model = buildModel({
    opset: { "": 24, insitu: 1 },
    inputs: given.map(({ view, at }) => value(`x${at}`, view.type, view.shape)),
    outputs: caches.map((_, at) => value(`y${at}`)),
    nodes: [
      node(
        op,
        inputs.map((view, at) => (view === undefined ? undefined : `x${at}`)),
        caches.map((_, at) => `y${at}`),
        attrs as Record<string, AttributeInput>,
        { domain: "insitu" },
      ),
    ],
  });
  const executable = variant.session.prepare(makePlan(graphOf(model), { policy: "require" }));
  const views = given.map(({ view, at }) => {
    if (!caches.includes(at)) return view;
    const held = bufferOn(executable, view.type, view.shape);
    copyView(view, held);
    return held;
  });
  const before = variant.taken.get(op) ?? 0;
  await runOn(executable, views);
  const after = caches.map((cache) => views[given.findIndex(({ at }) => at === cache)]);
  return { caches: after, taken: (variant.taken.get(op) ?? 0) > before };
}

/** True if two contiguous views hold the same bytes. */
export const sameBytes = (a: View, b: View): boolean =>
  a.type === "string"
    ? JSON.stringify(a.data) === JSON.stringify(b.data)
    : Buffer.compare(Buffer.from(bytesOf(a)), Buffer.from(bytesOf(b))) === 0;
