// States without rows whose next content is made anew each run: it is made in the state's own buffer where all who read the old one can come first, and
// nothing is copied. Several states take turns, against a loop that carries them by hand.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { backends } from "../support/backends.js";

const floats = (dims: readonly number[], data: readonly number[]): Tensor =>
  new Tensor("float32", Float32Array.from(data), dims);
const integers = (...data: readonly bigint[]): Tensor => new Tensor("int64", BigInt64Array.from(data), [data.length]);

/** What a convolution looks back on, `[batch, 2, 3]`, cut from the joined; and a recurrence, `[batch, 2, 1]`, written out. */
const model = writeModel(
  buildModel({
    opset: 21,
    inputs: [
      value("x", "float32", ["batch", 2, "length"]),
      value("past_conv.0", "float32", ["batch", 2, 3]),
      value("past_ssm.0", "float32", ["batch", 2, 1]),
    ],
    outputs: [
      value("y", "float32", ["batch", 2, "length"]),
      value("present_conv.0", "float32", ["batch", 2, 3]),
      value("present_ssm.0", "float32", ["batch", 2, 1]),
    ],
    initializers: [
      initializer("weights", floats([2, 1, 4], [1, 2, 3, 4, 0.5, 0.25, -1, 2])),
      initializer("start", integers(-3n)),
      initializer("end", integers(2n ** 40n)),
      initializer("axis", integers(2n)),
      initializer("decay", floats([1], [0.5])),
    ],
    nodes: [
      node("Concat", ["past_conv.0", "x"], ["joined"], { axis: 2 }),
      node("Slice", ["joined", "start", "end", "axis"], ["present_conv.0"]),
      node("Conv", ["joined", "weights"], ["convolved"], { group: 2 }),
      node("ReduceSum", ["x", "axis"], ["sum"], { keepdims: 1 }),
      node("Mul", ["past_ssm.0", "decay"], ["decayed"]),
      node("Add", ["decayed", "sum"], ["present_ssm.0"]),
      // A reader of the old state that the file has behind the node which makes the new one.
      node("Sub", ["convolved", "past_ssm.0"], ["y"]),
    ],
  }),
);

/** One text, carried by hand. */
class Loop {
  conv = [
    [0, 0, 0],
    [0, 0, 0],
  ];
  ssm = [0, 0];

  run(x: readonly (readonly number[])[]): number[] {
    const weights = [
      [1, 2, 3, 4],
      [0.5, 0.25, -1, 2],
    ];
    const y = x.flatMap((row, channel) => {
      const joined = [...this.conv[channel], ...row];
      this.conv[channel] = joined.slice(-3);
      return row.map(
        (_, at) => weights[channel].reduce((sum, weight, k) => sum + weight * joined[at + k], 0) - this.ssm[channel],
      );
    });
    this.ssm = this.ssm.map((old, channel) => 0.5 * old + x[channel].reduce((sum, each) => sum + each, 0));
    return y;
  }
}

describe.each(backends)("on $name", ({ options }) => {
  test("states that take turns, and a fork, are those that a loop carries; no byte is moved", async () => {
    const session = await InferenceSession.create(model, { ...options, inPlace: "require" });
    const explained = session.explain();
    expect(explained).toMatch(/2 cache updates, all in place/);
    expect(explained).toMatch(/this plan moves +0 bytes/);
    const states = [0, 1].map(() => session.createState({ dims: { batch: 1 } }));
    const loops = [new Loop(), new Loop()];
    const step = async (which: number, length: number, seed: number): Promise<void> => {
      const rows = [0, 1].map((channel) => Array.from({ length }, (_, at) => ((seed + 3 * channel + at) % 7) - 3));
      const { y } = await session.run({ x: floats([1, 2, length], rows.flat()) }, { state: states[which] });
      const wanted = loops[which].run(rows);
      expect([...(await y.getData())].map(Number).map((each, at) => Math.abs(each - wanted[at]) < 1e-4)).toEqual(
        wanted.map(() => true),
      );
    };
    let seed = 0;
    for (const [which, length] of [0, 1, 0, 0, 1, 1, 0, 1].map((each, at) => [each, [4, 4, 1, 1, 1, 2, 1, 1][at]]))
      await step(which, length, seed++);
    for (const state of states) expect(state.statistics.movedBytes).toBe(0);
    const fork = states[0].fork();
    states.push(fork);
    loops.push(Object.assign(new Loop(), { conv: loops[0].conv.map((row) => [...row]), ssm: [...loops[0].ssm] }));
    for (const [which, length] of [0, 2, 1, 2, 0].map((each) => [each, 1])) await step(which, length, seed++);
    for (const state of states) state.release();
    await session.release();
  });
});
