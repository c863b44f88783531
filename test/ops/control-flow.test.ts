// If, Loop and Scan with bodies written in TypeScript: how often they run, what they carry, what they stack, what they refuse.
import { describe, expect, test } from "vitest";
import { caseAttributes, of } from "../../tools/cases/shared/case.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { type Callable, evaluate, inferOutputs } from "../../src/graph/call.js";
import { addDims, shapeText, symbol } from "../../src/graph/dim.js";
import { type Fact, factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { readNumbers } from "../../src/tensor/access.js";
import { InsituError } from "../../src/base/error.js";
import { View } from "../../src/tensor/view.js";

interface Body {
  infer(inputs: readonly Fact[]): readonly Fact[];
  run(inputs: readonly View[]): readonly View[];
}

function nodeOf(name: string, opset: number, outputs: number, bodies: Record<string, Body>, attrs = {}): Callable {
  const op = operators.find("", name, opset)!;
  const given = new Map(caseAttributes(attrs));
  for (const body of Object.keys(bodies)) given.set(body, { kind: "graph" });
  return {
    op,
    label: name,
    opset,
    attrs: readAttributes(op.attrs, given, name),
    wanted: new Array<boolean>(outputs).fill(true),
  };
}

function run(node: Callable, bodies: Record<string, Body>, inputs: readonly (View | undefined)[]): string[] {
  const facts = inputs.map((view) => view && factOfView(view));
  const results = evaluate(
    node,
    inputs,
    facts,
    (name, given) => bodies[name].infer(given),
    (name, given) => bodies[name].run(given),
  );
  return results.map((view) => `${view}: ${Array.from(readNumbers(view!)).join(" ")}`);
}

const int = (value: number | bigint): View => of("int64", [], [value]);
const bool = (value: boolean): View => of("bool", [], [value]);
const floats = (...values: number[]): View => of("float32", [values.length], values);
const numbers = (view: View): number[] => Array.from(readNumbers(view));
const flag: Fact = { type: "bool", shape: [] };

/** Adds the iteration number to a vector, yields it, and goes on while the number is below `last`. */
const adding = (last: number): Body => ({
  infer: ([, , carried]) => [flag, carried, carried],
  run: ([iteration, , carried]) => {
    const [at] = numbers(iteration);
    const next = floats(...numbers(carried).map((value) => value + at));
    return [bool(at < last), next, next];
  },
});

/** Appends the iteration number to a vector. */
const growing: Body = {
  infer: ([, , { type, shape }]) => [flag, { type, shape: shape && [addDims(shape[0], 1)] }],
  run: ([iteration, , carried]) => [bool(true), floats(...numbers(carried), ...numbers(iteration))],
};

describe("Loop", () => {
  const loop = (body: Body, inputs: readonly (View | undefined)[], outputs = 2): string[] =>
    run(nodeOf("Loop", 13, outputs, { body }), { body }, inputs);

  test("a count ends it; what is yielded is stacked", () => {
    expect(loop(adding(9), [int(3), bool(true), floats(1, 2)])).toEqual([
      "float32[2]: 4 5",
      "float32[3,2]: 1 2 2 3 4 5",
    ]);
  });

  test("the condition ends it, long before a count that no memory would hold", () => {
    expect(loop(adding(1), [int(9223372036854775807n), bool(true), floats(0)])).toEqual([
      "float32[1]: 1",
      "float32[2,1]: 0 1",
    ]);
  });

  test("without a count the condition alone ends it, given or not", () => {
    expect(loop(adding(2), [undefined, bool(true), floats(0)])[0]).toBe("float32[1]: 3");
    expect(loop(adding(2), [undefined, undefined, floats(0)])[0]).toBe("float32[1]: 3");
  });

  test("without a condition operand the one that the body returns is ignored", () => {
    expect(loop(adding(-1), [int(3), undefined, floats(0)])[0]).toBe("float32[1]: 3");
  });

  test("no iterations leave the initial values and empty stacks", () => {
    expect(loop(adding(9), [int(0), bool(true), floats(1, 2)])).toEqual(["float32[2]: 1 2", "float32[0,2]: "]);
    expect(loop(adding(9), [int(-4), bool(true), floats(1)])).toEqual(["float32[1]: 1", "float32[0,1]: "]);
    expect(loop(adding(9), [int(4), bool(false), floats(1)])).toEqual(["float32[1]: 1", "float32[0,1]: "]);
  });

  test("a carried value may change its shape", () => {
    expect(loop(growing, [int(3), bool(true), floats()], 1)).toEqual(["float32[3]: 0 1 2"]);
  });

  test("one look at the body tells which dimensions stay", () => {
    const body: Body = {
      ...growing,
      infer: ([, , { type, shape }, other]) => [
        flag,
        { type, shape: [addDims(shape![0], 1), shape![1]] },
        other,
        { type, shape },
      ],
    };
    const node = nodeOf("Loop", 13, 3, { body });
    const facts: Fact[] = [
      { type: "int64", shape: [] },
      { type: "bool", shape: [] },
      { type: "float32", shape: [0, symbol("width")] },
      { type: "float32", shape: [symbol("batch")] },
    ];
    const shapes = inferOutputs(node, facts, (_, given) => body.infer(given)).map(({ shape }) => shapeText(shape));
    expect(shapes[0]).toMatch(/^\[\?\d+,width\]$/);
    expect(shapes[1]).toBe("[batch]");
    expect(shapes[2]).toMatch(/^\[\?\d+,\?\d+,width\]$/);
  });

  test("what is yielded must keep its shape", () => {
    const body: Body = {
      infer: ([, , carried]) => [flag, carried, { type: "float32", shape: undefined }],
      run: ([iteration, , carried]) => [
        bool(true),
        carried,
        floats(...Array.from({ length: numbers(iteration)[0] + 1 }, () => 0)),
      ],
    };
    expect(() => loop(body, [int(2), bool(true), floats(1)])).toThrow(
      /scan output 0 must keep its type and shape.*float32\[1\] and float32\[2\]/,
    );
  });

  test("a body that returns too little, or another type, is refused", () => {
    const short: Body = { infer: () => [flag], run: () => [bool(true)] };
    expect(() => loop(short, [int(1), bool(true), floats(1)])).toThrow(/body must return at least 3 values, got 1/);
    const other: Body = { infer: () => [flag, { type: "int8", shape: [1] }, flag], run: () => [] };
    expect(() => loop(other, [int(1), bool(true), floats(1)])).toThrow(
      /body must return carried value 0 as float32, got int8/,
    );
  });
});

describe("If", () => {
  const constant = (view: View): Body => ({ infer: () => [factOfView(view)], run: () => [view] });
  const misfit: Body = {
    infer: () => {
      throw new InsituError("shape-mismatch", "made for other shapes");
    },
    run: () => [],
  };
  const shapeOf = (then_branch: Body, else_branch: Body): string => {
    const bodies = { then_branch, else_branch };
    const [fact] = inferOutputs(nodeOf("If", 13, 1, bodies), [flag], (name) =>
      bodies[name as keyof typeof bodies].infer([]),
    );
    return shapeText(fact.shape);
  };

  test("runs the branch that the condition names, and that one only", () => {
    const bodies = { then_branch: constant(floats(1, 2)), else_branch: misfit };
    expect(run(nodeOf("If", 13, 1, bodies), bodies, [bool(true)])).toEqual(["float32[2]: 1 2"]);
    const swapped = { then_branch: misfit, else_branch: constant(floats(3)) };
    expect(run(nodeOf("If", 13, 1, swapped), swapped, [of("bool", [1], [0])])).toEqual(["float32[1]: 3"]);
  });

  test("facts hold for both branches", () => {
    expect(shapeOf(constant(of("int8", [2, 1], [1, 2])), constant(of("int8", [2, 0], [])))).toMatch(/^\[2,\?\d+\]$/);
    expect(shapeOf(constant(floats(1)), constant(of("float32", [], [1])))).toBe("[?]");
  });

  test("a branch for other shapes is one that is never taken", () => {
    expect(shapeOf(misfit, constant(floats(1)))).toBe("[1]");
    expect(shapeOf(constant(floats(1)), misfit)).toBe("[1]");
    expect(() => shapeOf(misfit, misfit)).toThrow(/made for other shapes/);
  });

  test("branches of different types are refused", () => {
    expect(() => shapeOf(constant(floats(1)), constant(int(1)))).toThrow(
      /both branches must return the same types, got float32 and int64/,
    );
  });
});

describe("Scan", () => {
  /** Adds up what is scanned and yields the sums. */
  const summing: Body = {
    infer: ([state]) => [state, state],
    run: ([state, element]) => {
      const added = numbers(element);
      const sum = of(
        "float32",
        state.shape,
        numbers(state).map((value, at) => value + added[at]),
      );
      return [sum, sum];
    },
  };
  const matrix = of("float32", [2, 3], [1, 2, 3, 10, 20, 30]);
  const scan = (inputs: readonly (View | undefined)[], attrs = {}, opset = 11): string[] =>
    run(nodeOf("Scan", opset, 2, { body: summing }, { num_scan_inputs: 1, ...attrs }), { body: summing }, inputs);

  test("along the first axis by default", () => {
    expect(scan([floats(0, 0, 0), matrix])).toEqual(["float32[3]: 11 22 33", "float32[2,3]: 1 2 3 11 22 33"]);
  });

  test("along another axis, backwards, stacked backwards on the last axis", () => {
    const attrs = {
      scan_input_axes: [-1],
      scan_input_directions: [1],
      scan_output_axes: [1],
      scan_output_directions: [1],
    };
    expect(scan([floats(0, 0), matrix], attrs)).toEqual(["float32[2]: 6 60", "float32[2,3]: 6 5 3 60 50 30"]);
  });

  test("nothing to scan", () => {
    expect(scan([floats(7), of("float32", [0, 1], [])])).toEqual(["float32[1]: 7", "float32[0,1]: "]);
  });

  test("before opset 9: batches of sequences, some of them shorter", () => {
    const states = of("float32", [2, 1], [0, 100]);
    const sequences = of("float32", [2, 2, 1], [1, 2, 3, 4]);
    const attrs = { directions: [1] };
    expect(scan([of("int64", [2], [2, 1]), states, sequences], attrs, 8)).toEqual([
      "float32[2,1]: 3 103",
      "float32[2,2,1]: 2 3 103 0",
    ]);
    expect(() => scan([of("int64", [2], [2, 3]), states, sequences], attrs, 8)).toThrow(
      /sequence_lens\[1\] must lie in \[0, 2\], got 3/,
    );
  });

  test("refusals name the rule", () => {
    expect(() => scan([matrix], { num_scan_inputs: 2 })).toThrow(/num_scan_inputs must lie in \[1, 1\], got 2/);
    expect(() => scan([floats(0), matrix], { scan_input_axes: [0, 1] })).toThrow(
      /scan_input_axes needs 1 entries, got 2/,
    );
    expect(() => scan([floats(0), matrix], { scan_input_directions: [2] })).toThrow(
      /scan_input_directions must be 0 or 1, got \[2\]/,
    );
    const widening: Body = {
      infer: ([{ type }]) => [
        { type, shape: [9] },
        { type, shape: [9] },
      ],
      run: () => [],
    };
    const node = nodeOf("Scan", 11, 2, { body: widening }, { num_scan_inputs: 1 });
    expect(() => run(node, { body: widening }, [floats(0), matrix])).toThrow(
      /body must keep the shape of state 0, got 1 and 9/,
    );
  });
});
