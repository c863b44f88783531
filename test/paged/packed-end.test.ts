// Packed batches of PagedAttention with each of their buffers in turn flush against the end of the memory, where a byte read or written too far traps.
import { afterAll, beforeAll, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { atTheEnd, MemoryEnd, prepare } from "../support/memory-end.js";
import { differenceOf, seed } from "../wasm/fast-path.js";
import { call, modelAttributes } from "./attention-case.js";
import { manySamples } from "./many-samples.js";
import { soak } from "../support/soak.js";

const end = new MemoryEnd();
afterAll(() => end.restore());
beforeAll(() => prepare({ ...atTheEnd, threads: 1 }));

const cases = soak ? 60 : 4;

test(`${cases} packed batches, from seed ${seed} on`, async () => {
  let placed = 0;
  for (let at = 0; at < cases; at++) {
    const { text, attrs, inputs } = manySamples(seed + at, 6, at % 2 === 0 ? 5 : 40);
    const names = inputs.map((view, number) => (view === undefined ? undefined : `x${number}`));
    const given = inputs.flatMap((view, number) => (view === undefined ? [] : [{ view, name: `x${number}` }]));
    const model = writeModel(
      buildModel({
        opset: { "": 21, insitu: 1 },
        inputs: given.map(({ name, view }) => value(name, view.type, view.shape)),
        outputs: [value("y"), value("sums")],
        nodes: [node("PagedAttention", names, ["y", "sums"], modelAttributes(attrs), { domain: "insitu" })],
      }),
    );
    const feeds = Object.fromEntries(
      given.map(({ name, view }) => [name, new Tensor(view.type, view.data, view.shape)]),
    );
    const expected = call("insitu", "PagedAttention", 1, attrs, inputs, [true, true]);
    const tolerance = expected[0]!.type === "float16" ? 2 ** -9 : 2e-5;
    for (let number = 0, taken = 1; number < taken; number++) {
      end.place((taking) => taking.number === number);
      const session = await InferenceSession.create(model, { ...atTheEnd, threads: 1 });
      const results = await session.run(feeds);
      expect(differenceOf(results["y"].toView(), expected[0]!, tolerance, tolerance), text).toBe("");
      expect(differenceOf(results["sums"].toView(), expected[1]!, 2e-5, 2e-5), `sums, ${text}`).toBe("");
      expect(session.explain()).toContain("by pagedPacked");
      await session.release();
      taken = end.taken;
      placed += end.placed;
    }
  }
  expect(placed).toBeGreaterThan(cases * 3);
});
