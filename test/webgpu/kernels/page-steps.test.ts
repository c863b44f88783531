// A token of each sample on pages, done in the dispatches of its attention, against the reference implementation: group sizes, head sizes and block sizes, contexts that end
// inside a block and at its ends, samples that fill up; and runs in which a row is read that another sample writes, which the host must tell apart.
// What was dispatched is listed: both ways are recorded for the same shapes.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { float } from "../../../src/onnx/build.js";
import { readNumbers } from "../../../src/tensor/access.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { listingGpu, offeringGpu, PlacedSession } from "../../support/gpu.js";
import { gpuWithSubgroups } from "../../support/imagined-subgroups.js";
import { soak } from "../../support/soak.js";
import { differenceOf, integers, type OneNode, randomFrom } from "./one-node.js";
import { type Form, pagedCall, type Step } from "./paged-call.js";

const dispatched: string[] = [];
const place = PlacedSession.place(listingGpu(dispatched));

const atOnce = ["attentionStepAtOnce"];
const split = ["attentionStep", "attentionCombine"];

/** What is wrong with a call, or dispatched beside what it should come to. */
async function problemOf(call: OneNode, wanted: readonly string[], form: Form): Promise<string> {
  dispatched.length = 0;
  const tolerance = form.type === "float16" ? 1e-2 : 2e-5;
  const apart = await differenceOf(call, [], tolerance, form.options, form.place ?? place);
  const names = dispatched.filter((name) => /^(attention|turn|write)/.test(name)).join();
  return `${apart}${names === wanted.join() ? "" : ` dispatched ${names}`}`;
}

/** One token of each of these, written but for the skipped ones. */
const token = (before: readonly number[], skipped: readonly number[] = []): Step => ({
  before,
  length: 0,
  added: { each: before.map(() => 1), as: "samples" },
  skipped,
});

/** Contexts whose new row is the first of all, the last and the first of a block, and inside one; the last two samples fill up. */
const ends = (blockSize: number): Step => {
  const before = [0, blockSize - 1, blockSize, 2 * blockSize - 1, 3 * blockSize + 3, 0, 0];
  return token(before, [before.length - 2, before.length - 1]);
};

const problemsOf = async (form: Form, steps: readonly Step[], wanted: readonly string[]): Promise<string[]> => {
  const random = randomFrom(form.size + form.heads);
  const problems: string[] = [];
  for (const step of steps) {
    const problem = await problemOf(pagedCall(random, form, step), wanted, form);
    if (problem !== "") problems.push(`${JSON.stringify(form)} ${JSON.stringify(step)}: ${problem}`);
  }
  return problems;
};

const [groups, sizes, blockSizes] = [
  [1, 2, 4, 8],
  [64, 96, 128, 256],
  [8, 16, 32],
];

/** Each size with each; by default every seventh, in which each size comes. */
const all = sizes.flatMap((size) =>
  groups.flatMap((group) => blockSizes.map((blockSize) => ({ size, group, blockSize }))),
);
const forms = all.map(({ size, group, blockSize }, at): Form => {
  const shared = group === 8 ? 1 : 2;
  return {
    type: at % 2 === 0 ? "float32" : "float16",
    layout: at % 3 === 0 ? "Norm" : "NHSD",
    size,
    heads: group * shared,
    shared,
    blockSize,
    packed: at % 4 !== 1,
    ...(at % 5 === 1 ? {} : { pairs: at % 7 === 2 ? size / 4 : size / 2 }),
    norm: at % 4 < 2,
    ...(at % 6 === 4 ? { attrs: { left_window_size: 12, softcap: float(2) } } : {}),
    sinks: at % 8 === 3,
  };
});
const tried = forms.filter((_, at) => soak || at % 7 === 0);

describe.skipIf(noWebgpu !== undefined)("a token of each sample on pages", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test("group sizes, head sizes and block sizes", async () => {
    for (const form of tried) expect(await problemsOf(form, [ends(form.blockSize!)], atOnce)).toEqual([]);
  });

  const usual: Form = {
    type: "float16",
    layout: "NHSD",
    size: 64,
    heads: 4,
    shared: 2,
    pairs: 32,
    norm: true,
    packed: true,
  };

  test("without subgroups, and in subgroups of 32", async () => {
    const sized = PlacedSession.place(listingGpu(dispatched, gpuWithSubgroups(32)));
    for (const form of [forms[7], forms[42]]) {
      const options = { webgpu: { subgroups: false } };
      expect(await problemsOf({ ...form, options }, [ends(form.blockSize!)], atOnce)).toEqual([]);
      const matrices = { webgpu: { subgroupMatrices: false } };
      expect(await problemsOf({ ...form, options: matrices, place: sized }, [ends(form.blockSize!)], atOnce)).toEqual(
        [],
      );
    }
  });

  test("one text, and many", async () => {
    expect(await problemsOf(usual, [token([37])], atOnce)).toEqual([]);
    const before = Array.from({ length: 64 }, (_, sample) => (7 * sample) % 83);
    expect(await problemsOf(usual, [token(before)], atOnce)).toEqual([]);
  });

  test("batches that are not packed", async () => {
    expect(await problemsOf(usual, [{ before: [31, 2, 40], length: 1, skipped: [1] }], atOnce)).toEqual([]);
  });

  test("contexts of several tiles", async () => {
    const steps = [token([255, 3], [1]), token([256]), token([319, 320, 64, 0], [3])];
    expect(await problemsOf(usual, steps.slice(0, 1), atOnce)).toEqual([]);
    expect(await problemsOf(usual, steps.slice(1), split)).toEqual([]);
    const large: Form = { ...usual, type: "float32", size: 256, heads: 8, shared: 1, pairs: 128, sinks: true };
    expect(await problemsOf(large, steps.slice(2), split)).toEqual([]);
  });

  test("8 bindings, where weights are the model's; too few where queries, keys and values lie apart", async () => {
    const few = PlacedSession.place(listingGpu(dispatched, offeringGpu({ maxStorageBuffersPerShaderStage: 8 })));
    const form = { ...usual, place: few, constant: true };
    expect(await problemsOf(form, [ends(16)], atOnce)).toEqual([]);
    const first = ["turnQueries", "writePages", "attentionAtOnce"];
    expect(await problemsOf({ ...form, packed: false }, [ends(16)], first)).toEqual([]);
  });

  describe("what is read that another sample writes is written first", () => {
    const apart = ["turnIntoPages", "attentionAtOnce"];
    const step = token([20, 20, 5]);
    const example = (): OneNode => pagedCall(randomFrom(3), usual, step);
    const numbersOf = (call: OneNode, at: number): number[] => Array.from(readNumbers(call.inputs[at]!));
    const withInput = (call: OneNode, at: number, numbers: readonly number[]): OneNode => ({
      ...call,
      inputs: call.inputs.with(at, integers("int64", numbers, [...call.inputs[at]!.shape])),
    });

    test("two samples in one block", async () => {
      const call = example();
      const tables = numbersOf(call, 13);
      const columns = tables.length / 3;
      // The second sample is the first one, a row later.
      for (let column = 0; column < columns; column++) tables[columns + column] = tables[column];
      const slots = numbersOf(call, 12);
      slots[1] = slots[0] + 1;
      const changed = withInput(withInput(withInput(call, 13, tables), 12, slots), 14, [21, 22, 6]);
      expect(await problemOf(changed, apart, usual)).toBe("");
    });

    test("two tokens in one slot", async () => {
      const call = example();
      const slots = numbersOf(call, 12);
      const tables = numbersOf(call, 13);
      const columns = tables.length / 3;
      for (let column = 0; column < columns; column++) tables[columns + column] = tables[column];
      slots[1] = slots[0];
      expect(await problemOf(withInput(withInput(call, 13, tables), 12, slots), apart, usual)).toBe("");
    });

    test("a row before the last", async () => {
      const call = example();
      const slots = numbersOf(call, 12);
      slots[2]--;
      expect(await problemOf(withInput(withInput(call, 12, slots), 14, [21, 21, 5]), atOnce, usual)).toBe("");
      expect(await problemOf(withInput(withInput(call, 12, slots), 14, [21, 21, 5 - 1]), apart, usual)).toBe("");
    });

    test("blocks that are read alone may be shared", async () => {
      const call = example();
      const tables = numbersOf(call, 13);
      tables[tables.length / 3] = tables[0];
      expect(await problemOf(withInput(call, 13, tables), atOnce, usual)).toBe("");
    });

    test("several tokens of a sample beside one of another", async () => {
      const mixed: Step = { before: [20, 7], length: 0, added: { each: [2, 0], as: "samples" } };
      dispatched.length = 0;
      expect(await differenceOf(pagedCall(randomFrom(4), usual, mixed), [], 1e-2, {}, place)).toBe("");
      expect(dispatched).toContain("turnIntoPages");
      expect(dispatched).not.toContain("attentionStepAtOnce");
    });
  });
});
