// Scattering on WebGPU beside the reference: runs and elements, into a copy of data that is fed, with gaps in updates and data; and into a
// state's cache itself, run after run.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../../src/entry/node.js";
import { of } from "../../../tools/cases/shared/case.js";
import { buildModel, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import { type ElementType, traitsOf } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { noWebgpu } from "../../support/backends.js";
import { randomFrom, randomView } from "../../wasm/fast-path.js";
import { useDevice } from "./beside.js";

const check = useDevice();

describe.skipIf(noWebgpu !== undefined)(`scattering${noWebgpu ? `: ${noWebgpu}` : ""}`, () => {
  const types: readonly ElementType[] = ["float32", "int64", "float16", "int8"];

  test.each(types)("%s: runs where rows of indices point", async (type) => {
    const random = randomFrom(31);
    for (const [shape, rows, width] of [
      [[5, 8], [[1], [-1]], 1],
      [
        [3, 4, 4],
        [
          [0, 1],
          [-1, 3],
          [2, -4],
        ],
        2,
      ],
      [[2, 3, 2, 8], [[1]], 1],
    ] as const) {
      const updates = [rows.length, ...shape.slice(width)];
      for (const as of ["fed", "gaps"] as const)
        await check({
          op: "ScatterND",
          inputs: [
            { view: randomView(random, type, shape), as: type.startsWith("float") ? as : "gaps" },
            { view: of("int64", [rows.length, width], rows.flat()) },
            { view: randomView(random, type, updates), as },
          ],
          relative: 0,
          taken: as === "fed" || traitsOf(type).bits >= 32,
        });
    }
    expect.hasAssertions();
  });

  test("elements along an axis", async () => {
    const random = randomFrom(32);
    for (const type of ["float32", "int64", "float16"] as const)
      for (const axis of [0, 1])
        await check({
          op: "ScatterElements",
          attrs: { axis },
          inputs: [
            { view: randomView(random, type, [4, 5]), as: "gaps" },
            { view: of("int64", [2, 2], axis === 0 ? [0, -1, 2, 1] : [0, -1, 3, 1]) },
            { view: randomView(random, type, [2, 2]) },
          ],
          relative: 0,
          taken: type !== "float16",
        });
    for (const reduction of ["add", "max"])
      await check({
        op: "ScatterND",
        attrs: { reduction },
        inputs: [
          { view: randomView(random, "float32", [4]) },
          { view: of("int64", [2, 1], [1, 1]) },
          { view: randomView(random, "float32", [2]) },
        ],
        taken: false,
      });
    expect.hasAssertions();
  });

  test("a cache is written in place, and no other bit of it", async () => {
    const model = writeModel(
      buildModel({
        opset: 18,
        inputs: [value("past", "float32", [6, 4]), value("at", "int64", [1, 1]), value("row", "float32", [1, 4])],
        outputs: [value("present", "float32", [6, 4])],
        nodes: [node("ScatterND", ["past", "at", "row"], ["present"])],
      }),
    );
    const caches: number[][] = [];
    for (const backend of ["reference", "webgpu"] as const) {
      const session = await InferenceSession.create(model, { backend });
      const state = session.createState({ pairs: { past: "present" } });
      for (const at of [3n, -1n, 0n, 3n])
        await session.run(
          {
            at: new Tensor("int64", [at], [1, 1]),
            row: new Tensor("float32", [1, 2, 3, Number(at) / 7].map(Math.fround), [1, 4]),
          },
          { state },
        );
      caches.push([...((await state.get("past").getData()) as Float32Array)]);
      if (backend === "webgpu") expect(session.explain()).toContain("by scatterND");
      await session.release();
    }
    expect(caches[1]).toEqual(caches[0]);
  });
});
