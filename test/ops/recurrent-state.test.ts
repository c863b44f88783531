// LinearAttention and CausalConvWithState: a sequence in steps equals one pass, and a state may be written where the past lies.
import fc from "fast-check";
import { expect, test } from "vitest";
import { readAttributes } from "../../src/graph/attribute.js";
import { type CaseAttribute, caseAttributes, of } from "../../tools/cases/shared/case.js";
import { type Callable, callReference, inferOutputs } from "../../src/graph/call.js";
import { factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { readNumbers } from "../../src/tensor/access.js";
import { View } from "../../src/tensor/view.js";
import { distance } from "../support/compare.js";

const none = (): never => {
  throw new Error("no subgraphs here");
};

/** Calls an operator with (output, present_state); with `share`, the state is written over the past. */
function call(
  name: string,
  attrs: Readonly<Record<string, CaseAttribute>>,
  inputs: readonly (View | undefined)[],
  share?: View,
): [View, View] {
  const op = operators.find("", name, 27)!;
  const node: Callable = {
    op,
    label: name,
    opset: 27,
    attrs: readAttributes(op.attrs, caseAttributes(attrs), name),
    wanted: [true, true],
  };
  const facts = inferOutputs(
    node,
    inputs.map((view) => view && factOfView(view)),
    none,
  );
  const outputs = facts.map((fact) => View.allocate(fact.type, fact.shape as number[])) as [View, View];
  if (share !== undefined) outputs[1] = share;
  callReference(node, inputs, outputs, facts, none);
  return outputs;
}

function numbers(seed: number, shape: readonly number[]): View {
  let state = seed >>> 0;
  const values = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return ((state >>> 8) % 257) / 256 - 0.5;
  });
  return of("float32", shape, values);
}

function expectClose(actual: View, expected: View, tolerance: number): void {
  const [a, b] = [readNumbers(actual), readNumbers(expected)];
  expect(String(actual)).toBe(String(expected));
  expect(distance(a, b)).toBeLessThanOrEqual(tolerance);
}

const seeds = fc.integer({ min: 0, max: 2 ** 31 - 1 });

test("LinearAttention in steps equals one pass, in place or not", () => {
  const shape = fc.record({
    rule: fc.constantFrom("linear", "gated", "delta", "gated_delta"),
    batch: fc.integer({ min: 1, max: 2 }),
    length: fc.integer({ min: 1, max: 5 }),
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 2 }),
    size: fc.integer({ min: 1, max: 3 }),
    valueSize: fc.integer({ min: 1, max: 3 }),
    wide: fc.boolean(),
  });
  fc.assert(
    fc.property(shape, seeds, ({ rule, batch, length, kvHeads, group, size, valueSize, wide }, seed) => {
      const attrs = { update_rule: rule, q_num_heads: kvHeads * group, kv_num_heads: kvHeads };
      const operand = (i: number, width: number): View => numbers(seed + i, [batch, length, width]);
      const past = numbers(seed + 9, [batch, kvHeads, size, valueSize]);
      const sequence = [
        operand(0, kvHeads * group * size),
        operand(1, kvHeads * size),
        operand(2, kvHeads * valueSize),
      ];
      const decay = rule.startsWith("gated") ? operand(3, wide ? kvHeads * size : kvHeads) : undefined;
      const beta = rule.endsWith("delta") ? operand(4, wide ? kvHeads : 1) : undefined;
      const [whole, last] = call("LinearAttention", attrs, [...sequence, past, decay, beta]);
      const state = numbers(seed + 9, [batch, kvHeads, size, valueSize]);
      for (let t = 0; t < length; t++) {
        const at = (view: View | undefined): View | undefined => view?.slice(1, t, t + 1);
        const [output] = call("LinearAttention", attrs, [...sequence.map(at), state, at(decay), at(beta)], state);
        expectClose(output, whole.slice(1, t, t + 1), 1e-5);
      }
      expectClose(state, last, 1e-5);
    }),
    { numRuns: 200 },
  );
});

test("CausalConvWithState in steps equals one pass, in place or not", () => {
  const shape = fc.record({
    batch: fc.integer({ min: 1, max: 2 }),
    channels: fc.integer({ min: 1, max: 3 }),
    length: fc.integer({ min: 1, max: 6 }),
    kernel: fc.integer({ min: 1, max: 4 }),
    step: fc.integer({ min: 1, max: 4 }),
    activation: fc.constantFrom("none", "silu"),
  });
  fc.assert(
    fc.property(shape, seeds, ({ batch, channels, length, kernel, step, activation }, seed) => {
      const [weight, bias] = [numbers(seed + 1, [channels, 1, kernel]), numbers(seed + 2, [channels])];
      const input = numbers(seed, [batch, channels, length]);
      const past = numbers(seed + 3, [batch, channels, kernel - 1]);
      const [whole, last] = call("CausalConvWithState", { activation }, [input, weight, bias, past]);
      const state = numbers(seed + 3, [batch, channels, kernel - 1]);
      for (let t = 0; t < length; t += step) {
        const rows = (view: View): View => view.slice(2, t, Math.min(t + step, length));
        const [output] = call("CausalConvWithState", { activation }, [rows(input), weight, bias, state], state);
        expectClose(output, rows(whole), 0);
      }
      expectClose(state, last, 0);
    }),
    { numRuns: 200 },
  );
});
