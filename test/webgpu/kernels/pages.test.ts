// What moves rows of caches on WebGPU against the reference implementation, in place and not: repacking, in every layout and in any order, and writes into
// pages, where of several tokens for one slot the last stays.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

type Random = () => number;
const pick = <const T>(random: Random, of: readonly T[]): T => of[Math.floor(random() * of.length)];
const below = (random: Random, end: number): number => Math.floor(random() * end);
const types = ["float32", "float16", "uint8", "float64"] as const;

/** The pages of a layout: blocks, slots of each, heads and their size. */
function pagesOf(layout: string, bytes: number, [blocks, slots, heads]: readonly number[], size: number): number[] {
  if (layout === "Norm") return [blocks, slots, heads, size];
  return layout === "NHSD" ? [blocks, heads, slots, size] : [blocks, heads * 2, slots, 32 / bytes];
}

const widthOf = { float32: 4, float16: 2, uint8: 1, float64: 8 };

function repack(random: Random): OneNode {
  const type = pick(random, types);
  const batch = pick(random, [1, 2]);
  const heads = pick(random, [1, 2]);
  const inPlace = random() < 0.6 ? { held: { 0: 0 } } : {};
  const index = pick(random, ["int64", "int32"]);
  const perHead = random() < 0.5;
  const rowsOf = (capacity: number): OneNode["inputs"][number] => {
    const count = 1 + below(random, capacity);
    const shape = perHead ? [batch, heads, count] : [batch, count];
    const size = shape.reduce((product, dim) => product * dim, 1);
    return integers(
      index,
      Array.from({ length: size }, () => below(random, capacity + 1) - 1),
      shape,
    );
  };
  const common = { op: "RepackCache", domain: "insitu", opset: 1, ...inPlace };
  if (random() < 0.5) {
    const capacity = pick(random, [3, 8, 20]);
    const cache = randomNumbers(random, type, [batch, heads, capacity, pick(random, [1, 3, 4, 16])]);
    return { ...common, inputs: [cache, rowsOf(capacity)], attrs: { axis: 2 } };
  }
  const layout = pick(random, ["Norm", "NHSD", "PA_NZ"]);
  const slots = pick(random, [1, 3, 4]);
  const columns = 3;
  const shape = pagesOf(layout, widthOf[type], [batch * columns + 1, slots, heads], pick(random, [1, 3, 4]));
  const order = Array.from({ length: batch * columns + 1 }, (_, at) => at).toSorted(() => random() - 0.5);
  const tables = integers(index, order.slice(1), [batch, columns]);
  const inputs = [randomNumbers(random, type, shape), rowsOf(columns * slots), tables];
  return { ...common, inputs, attrs: { cache_mode: layout } };
}

function scatter(random: Random): OneNode {
  const type = pick(random, ["float32", "float16", "int8"]);
  const layout = pick(random, ["Norm", "NHSD", "PA_NZ"]);
  const tokens = pick(random, [1, 5, 40, 70]);
  const [blocks, slots, heads] = [tokens > 40 ? 20 : 11, 4, 2];
  const width = { float32: 4, float16: 2, int8: 1 }[type];
  const size = layout === "PA_NZ" ? 32 / width : pick(random, [1, 3, 8]);
  const shape =
    layout === "PA_NZ" ? [blocks, heads, slots, 32 / width] : pagesOf(layout, width, [blocks, slots, heads], size);
  const make = (dims: readonly number[]): ReturnType<typeof randomNumbers> => randomNumbers(random, type, dims);
  const mapping = integers(
    "int32",
    Array.from({ length: tokens }, () => below(random, blocks * slots + 1) - 1),
  );
  return {
    op: "ScatterPaKvCache",
    domain: "insitu",
    opset: 1,
    attrs: layout === "NHSD" ? { scatter_mode: "NHSD" } : { cache_mode: layout },
    inputs: [make([tokens, heads, size]), make(shape), mapping, make([tokens, heads, size]), make(shape)],
    outputs: [true, true],
    ...(random() < 0.6 ? { held: { 1: 0, 4: 1 } } : {}),
  };
}

describe.skipIf(noWebgpu !== undefined)("rows of caches on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test.each([
    ["repackRows", repack],
    ["scatterPages", scatter],
  ] as const)("%s", async (kernel, make) => {
    const random = randomFrom(11);
    const problems: string[] = [];
    for (let round = 0; round < 40; round++) {
      const call = make(random);
      // Whole numbers that are fed and fetched stay on the host.
      const taken = call.held !== undefined || call.inputs[0]!.type.startsWith("float");
      const problem = await differenceOf(call, taken ? [kernel] : [], 0);
      if (problem !== "")
        problems.push(`${round}: ${call.inputs.join(", ")} ${JSON.stringify(call.attrs)}: ${problem}`);
    }
    expect(problems).toEqual([]);
  });
});
