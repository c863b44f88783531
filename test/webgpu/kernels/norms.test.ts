// Normalisations on WebGPU beside the reference implementation: row lengths around the sizes of words, vectors and workgroups, every float type, statistics,
// and with and without subgroups.
import { afterAll, beforeAll, describe, test } from "vitest";
import type { InferenceSession } from "../../../src/entry/node.js";
import { float } from "../../../src/onnx/build.js";
import { noWebgpu } from "../../support/backends.js";
import { compareOneNode, keepDevice, randomTensor } from "./product-models.js";

const microsoft = "com.microsoft";
const tolerances = { float32: 2e-5, float16: 2e-3, bfloat16: 1.6e-2 } as const;
const types = ["float32", "float16", "bfloat16"] as const;

describe.skipIf(noWebgpu !== undefined)(`norms on WebGPU${noWebgpu === undefined ? "" : ` (${noWebgpu})`}`, () => {
  const kept: InferenceSession[] = [];
  beforeAll(async () => void kept.push(await keepDevice(true), await keepDevice(false)));
  afterAll(() => Promise.all(kept.map((session) => session.release())));

  const sizes = { float32: [1, 7, 1500], float16: [7, 32, 1026], bfloat16: [6] } as const;

  for (const subgroups of [true, false])
    for (const type of subgroups ? types : types.slice(0, 1))
      test(`rows of ${type} ${subgroups ? "with" : "without"} subgroups`, async () => {
        for (const [at, size] of (subgroups ? sizes[type] : [130]).entries()) {
          const [shape, tolerance] = [[2, 3, size], tolerances[type]];
          const x = randomTensor(type, shape, at, 3);
          const [scale, bias] = [randomTensor(type, [size], at + 100), randomTensor(type, [size], at + 200)];
          const isServed = type === "float32" || size % 2 === 0;
          const run = (op: string, kernel: string, rest: object): Promise<unknown> =>
            compareOneNode(`${op} of ${size}`, {
              op,
              operands: [x, scale],
              weights: [1, 2],
              kernel: isServed ? kernel : undefined,
              tolerance,
              subgroups,
              ...rest,
            });
          await run("RMSNormalization", "rmsNormalization", {});
          await run("LayerNormalization", "layerNormalization", {
            operands: [x, scale, bias],
            outputs: [true, true, true],
          });
          for (const [skip, sums] of [
            [randomTensor(type, shape, at + 300), [true, false, false, true]],
            [randomTensor(type, [1, 3, size], at + 400), [true, true, true, true]],
            [randomTensor(type, [3, size], at + 500), [true, false, true, false]],
          ] as const)
            await run("SkipSimplifiedLayerNormalization", "skipRmsNormalization", {
              domain: microsoft,
              operands: [x, skip, scale],
              weights: [2],
              attrs: { epsilon: float(1e-6) },
              outputs: sums,
            });
          await run("SkipLayerNormalization", "skipLayerNormalization", {
            domain: microsoft,
            operands: [x, randomTensor(type, shape, at + 600), scale, bias, scale],
            weights: [2, 3, 4],
            attrs: { epsilon: float(1e-6) },
            outputs: [true, false, false, true],
          });
        }
      });

  test("groups of channels, single channels, several axes", async () => {
    for (const [at, shape] of [
      [2, 6, 5, 2],
      [3, 4, 3],
    ].entries())
      for (const type of types.slice(0, 2)) {
        const channels = shape[1];
        const operands = [
          randomTensor(type, shape, at, 3),
          randomTensor(type, [channels], at + 10),
          randomTensor(type, [channels], at + 20),
        ];
        const rest = { operands, weights: [1, 2], tolerance: tolerances[type] };
        const area = shape.slice(2).reduce((a, b) => a * b, 1);
        const served = (size: number, kernel: string): string | undefined =>
          type === "float32" || size % 2 === 0 ? kernel : undefined;
        const what = `${type} [${shape}]`;
        await compareOneNode(what, {
          op: "GroupNormalization",
          attrs: { num_groups: 2 },
          kernel: served((channels / 2) * area, "groupNormalization"),
          ...rest,
        });
        await compareOneNode(what, {
          op: "InstanceNormalization",
          kernel: served(area, "instanceNormalization"),
          ...rest,
        });
        await compareOneNode(what, {
          op: "LayerNormalization",
          attrs: { axis: 1 },
          kernel: served(channels * area, "layerNormalization"),
          ...rest,
          operands: [
            operands[0],
            randomTensor(type, shape.slice(1), at + 30),
            randomTensor(type, shape.slice(1), at + 40),
          ],
        });
      }
  });

  test("no rows, and scales that differ between rows", async () => {
    const scale = randomTensor("float32", [8], 2);
    const run = { op: "RMSNormalization", tolerance: 2e-5 };
    await compareOneNode("no rows", {
      ...run,
      operands: [randomTensor("float32", [0, 8], 1), scale],
      kernel: "",
    });
    await compareOneNode("scales", {
      ...run,
      operands: [randomTensor("float32", [2, 8], 1), randomTensor("float32", [2, 8], 3)],
      kernel: undefined,
    });
  });
});
