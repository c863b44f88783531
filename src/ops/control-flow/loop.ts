/** Loop: a body run until a count or a condition ends it, values carried from run to run, others stacked. */
import { graph, required } from "../../graph/attribute.js";
import { bindDim, bindShape, type Dim, isKnown, sameDim, type Shape, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { defineOp, optional, type OutputFact, tensor, variadic } from "../../graph/op.js";
import { View } from "../../tensor/view.js";
import { contentsOf } from "../shared/rules/contents.js";
import { checkOneElement, scalarOf } from "../shared/rules/operands.js";
import { anyType } from "../shared/rules/types.js";
import {
  checkReturned,
  checkSameElement,
  emptied,
  handOut,
  namedDim,
  numberIn,
  outputsOf,
  scalarInt64,
  stackInto,
  truthOf,
} from "./body.js";

/** Trip counts up to this one decide a shape beforehand; longer loops take memory only as they go. */
const longestPlanned = 4096;

/** Names for the dimensions of carried values, so that one look at the body tells how they change. */
interface Carried {
  readonly initial: Fact;
  /** What the body is told: the same rank, every dimension a name. */
  readonly named: Fact;
}

function nameDims(initial: Fact): Carried {
  const shape = initial.shape?.map(namedDim);
  return { initial, named: { type: initial.type, shape } };
}

/** What carried dimensions are in every iteration: their initial value where the body keeps it, else unknown. */
function settle(
  carried: readonly Carried[],
  returned: readonly (Shape | undefined)[],
): ReadonlyMap<string, Dim> | undefined {
  const values = new Map<string, Dim>();
  const open = new Set<string>();
  for (const { initial, named } of carried)
    named.shape?.forEach((dim, axis) => values.set(String(dim), initial.shape![axis]));
  // A body that changes a rank, or whose ranks cannot be told, leaves nothing that one look could tell.
  if (carried.some(({ named }, at) => named.shape === undefined || returned[at]?.length !== named.shape.length))
    return undefined;
  for (let changed = true; changed;) {
    changed = false;
    carried.forEach(({ named }, at) => {
      named.shape!.forEach((dim, axis) => {
        const name = String(dim);
        if (open.has(name) || sameDim(bindDim(returned[at]![axis], values), values.get(name)!)) return;
        open.add(name);
        values.set(name, unknownDim());
        changed = true;
      });
    });
  }
  return values;
}

/** How often the body runs, where that can be told; `again` is the condition that the body returns. */
function tripCount(limit: Dim | undefined, start: boolean | undefined, guarded: boolean, again: Fact): Dim | undefined {
  if (start === false || (limit !== undefined && isKnown(limit) && limit <= 0)) return 0;
  if (limit === undefined || start === undefined) return undefined;
  if (guarded && contentsOf(again)?.[0] !== 1) return undefined;
  return isKnown(limit) && limit > longestPlanned ? undefined : limit;
}

/** Runs `body` up to `M` times while the condition holds; carries values from run to run and stacks the others. */
export const loop = defineOp({
  name: "Loop",
  since: 1,
  types: { V: anyType },
  inputs: {
    M: optional(tensor("int64")),
    cond: optional(tensor("bool")),
    v_initial: variadic(tensor("V"), { heterogeneous: true, atLeast: 0 }),
  },
  outputs: { v_final_and_scan_outputs: variadic(tensor("V"), { heterogeneous: true }) },
  attrs: { body: required(graph()) },

  infer(call) {
    const { M, cond, v_initial: initial } = call.inputs;
    checkOneElement(call, "cond", cond);
    const limit = scalarOf(call, "M", M, { clamped: true });
    const carried = initial.map(nameDims);
    const facts: readonly Fact[] = [
      { type: "int64", shape: [] },
      { type: "bool", shape: [] },
      ...carried.map(({ named }) => named),
    ];
    const found = call.inferBody("body", facts);
    checkReturned(call, "body", found.length, 1 + Math.max(call.outputCount, initial.length));
    const [again, ...returned] = found;
    call.check(
      again.type === "bool",
      () => `body must return its condition first, a bool, got ${again.type}`,
      "type-mismatch",
    );
    checkOneElement(call, "the condition that body returns", again);
    initial.forEach((fact, at) => {
      call.check(
        returned[at].type === fact.type,
        () => `body must return carried value ${at} as ${fact.type}, got ${returned[at].type}`,
        "type-mismatch",
      );
    });
    const values = settle(
      carried,
      returned.slice(0, initial.length).map(({ shape }) => shape),
    );
    const [first] = cond === undefined ? [1] : (contentsOf(cond) ?? []);
    const start = typeof first === "number" ? first !== 0 : undefined;
    const count = tripCount(limit, start, cond !== undefined, again);
    const results = returned.map((fact, at): OutputFact => {
      if (at < initial.length) {
        if (count === 0) return { type: fact.type, shape: initial[at].shape };
        return { type: fact.type, shape: values && carried[at].named.shape!.map((dim) => values.get(String(dim))!) };
      }
      const element = values === undefined || fact.shape === undefined ? undefined : bindShape(fact.shape, values);
      if (element === undefined) return { type: fact.type, shape: count === 0 ? [0] : undefined };
      return { type: fact.type, shape: count === 0 ? [0, ...emptied(element)] : [count ?? unknownDim(), ...element] };
    });
    return { v_final_and_scan_outputs: results };
  },

  reference(call) {
    const { M, cond, v_initial: initial } = call.inputs;
    const limit = M === undefined ? Infinity : numberIn(M);
    // Without the operand the condition that the body returns is ignored, unless nothing else would end the loop.
    const guarded = cond !== undefined || M === undefined;
    let again = cond === undefined || truthOf(call, "cond", cond);
    let carried: readonly View[] = initial;
    const stacks = call.outputs.v_final_and_scan_outputs.slice(initial.length).map((): View[] => []);
    for (let iteration = 0; iteration < limit && again; iteration++) {
      const [next, ...values] = call.run("body", [
        scalarInt64(iteration),
        new View("bool", [], Uint8Array.of(again ? 1 : 0)),
        ...carried,
      ]);
      again = !guarded || truthOf(call, "the condition that body returns", next);
      carried = values.slice(0, initial.length);
      stacks.forEach((stack, at) => {
        const element = values[initial.length + at];
        if (stack.length > 0) checkSameElement(call, `scan output ${at}`, stack[0], element);
        stack.push(element);
      });
    }
    const outputs = outputsOf(call, "v_final_and_scan_outputs");
    carried.forEach((value, at) => handOut(outputs, at, value));
    stacks.forEach((stack, at) => stackInto(outputs, initial.length + at, stack));
  },
});
