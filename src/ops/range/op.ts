/** Range: numbers from a start to a limit, by steps. */
import { type Attribute, elementType } from "../../graph/attribute.js";
import {
  addDims,
  ceilDivideDims,
  type Dim,
  isKnown,
  maxDim,
  multiplyDims,
  subtractDims,
  unknownDim,
} from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { type BigInts, isWide, numberWriter, readBigInts, readNumbers } from "../../tensor/access.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { isNonNegative, longestContents } from "../shared/rules/contents.js";
import { checkOneElement, scalarOf } from "../shared/rules/operands.js";

interface Operands<V> {
  readonly start: V;
  readonly limit: V;
  readonly delta: V;
}

/** How many steps lead from `start` to before `limit`. */
function countOf(call: CallContext, start: number | bigint, limit: number | bigint, delta: number | bigint): number {
  call.check(Number(delta) !== 0, "delta must not be 0", "invalid-argument");
  let count: number;
  if (typeof start === "bigint" && typeof limit === "bigint" && typeof delta === "bigint") {
    const [distance, step] = delta > 0n ? [limit - start, delta] : [start - limit, -delta];
    count = distance <= 0n ? 0 : Number((distance + step - 1n) / step);
  } else {
    count = Math.max(Math.ceil((Number(limit) - Number(start)) / Number(delta)), 0);
  }
  call.check(
    Number.isSafeInteger(count),
    () => `from ${start} to ${limit} by ${delta} is no number of steps that a tensor can hold`,
    "invalid-argument",
  );
  return count;
}

const valueOf = (view: View): number | bigint => (isWide(view.type) ? readBigInts(view)[0] : readNumbers(view)[0]);

/** The length as symbols tell it. */
function symbolicCount(start: Dim, limit: Dim, delta: Dim): Dim {
  if (!isKnown(delta)) return unknownDim();
  const distance = delta > 0 ? subtractDims(limit, start) : subtractDims(start, limit);
  const steps = ceilDivideDims(distance, Math.abs(delta));
  return isNonNegative(steps) ? steps : maxDim(steps, 0);
}

function inferRange(
  call: CallContext,
  inputs: Operands<Fact>,
): { shape: readonly [Dim]; integers?: readonly Dim[] | undefined } {
  const { start, limit, delta } = inputs;
  for (const [name, fact] of Object.entries(inputs)) checkOneElement(call, name, fact);
  if (start.constant !== undefined && limit.constant !== undefined && delta.constant !== undefined) {
    const count = countOf(call, valueOf(start.constant), valueOf(limit.constant), valueOf(delta.constant));
    return { shape: [count], integers: contentsOfRange(call, inputs, count) };
  }
  if (traitsOf(start.type).kind !== "integer") return { shape: [unknownDim()] };
  const [from, to, by] = (["start", "limit", "delta"] as const).map((name) => {
    const dim = scalarOf(call, name, inputs[name], { clamped: true });
    return dim !== undefined && isKnown(dim) && !Number.isSafeInteger(dim) ? undefined : dim;
  });
  call.check(by !== 0, "delta must not be 0", "invalid-argument");
  if (from === undefined || to === undefined || by === undefined) return { shape: [unknownDim()] };
  const count = symbolicCount(from, to, by);
  return { shape: [count], integers: isKnown(count) ? contentsOfRange(call, inputs, count) : undefined };
}

function contentsOfRange(call: CallContext, inputs: Operands<Fact>, count: number): readonly Dim[] | undefined {
  if (traitsOf(inputs.start.type).kind !== "integer" || count > longestContents) return undefined;
  const start = scalarOf(call, "start", inputs.start, { clamped: true });
  const delta = scalarOf(call, "delta", inputs.delta, { clamped: true });
  if (start === undefined || delta === undefined) return undefined;
  const contents = Array.from({ length: count }, (_, i) => addDims(start, multiplyDims(delta, i)));
  return contents.every((entry) => !isKnown(entry) || Number.isSafeInteger(entry)) ? contents : undefined;
}

/** Writes start + i · delta; `round` is applied after each operation. */
function writeRange({ start, delta }: Operands<View>, output: View, round: (value: number) => number): void {
  const { size, offset } = output;
  if (isWide(output.type)) {
    const target = output.data as BigInts;
    const [from, by] = [readBigInts(start)[0], readBigInts(delta)[0]];
    for (let i = 0; i < size; i++) target[offset + i] = from + BigInt(i) * by;
    return;
  }
  const write = numberWriter(output);
  const [from, by] = [readNumbers(start)[0], readNumbers(delta)[0]];
  for (let i = 0; i < size; i++) write(offset + i, round(from + round(i * by)));
}

const operands = { start: tensor("T"), limit: tensor("T"), delta: tensor("T") } as const;

function rangeOp(
  since: number,
  types: readonly ElementType[],
  attrs: { readonly stash_type?: Attribute<ElementType> },
) {
  return defineOp({
    name: "Range",
    since,
    types: { T: types },
    inputs: operands,
    outputs: { output: tensor("T") },
    attrs,
    infer(call) {
      const stash = call.attrs.stash_type ?? "float32";
      call.check(
        stash === "float32" || stash === "float64",
        () => `stash_type must be float32 or float64, got ${stash}`,
        "invalid-argument",
      );
      return { output: inferRange(call, call.inputs) };
    },
    reference({ inputs, outputs, attrs: given }) {
      const small = inputs.start.type === "float16" || inputs.start.type === "bfloat16";
      const single = small && (given.stash_type ?? "float32") === "float32";
      writeRange(inputs, outputs.output, single ? Math.fround : (value) => value);
    },
  });
}

/** The numbers from `start` to before `limit`, `delta` apart. */
export const Range11 = rangeOp(11, ["float32", "float64", "int16", "int32", "int64"], {});

/** As before, also for the small floats, computed in `stash_type`. */
export const Range27 = rangeOp(27, ["float32", "float64", "int16", "int32", "int64", "float16", "bfloat16"], {
  stash_type: elementType("float32"),
});
