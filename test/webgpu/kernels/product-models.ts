// Models of one node on WebGPU beside the reference implementation: what the suites of kernels have in common.
import { expect } from "vitest";
import type { Platform } from "../../../src/base/platform.js";
import { InferenceSession } from "../../../src/entry/node.js";
import { seededRandom } from "../../../src/graph/call.js";
import { type AttributeInput, buildModel, initializer, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import { writeNumbers } from "../../../src/tensor/access.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { View } from "../../../src/tensor/view.js";
import { compareViews } from "../../support/compare.js";
import { hasSubgroupMatrices } from "../../support/device.js";
import { PlacedSession } from "../../support/gpu.js";

/** A node, its operands (some of them weights) and the kernel that must have run. */
export interface OneNode {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  readonly attrs?: Readonly<Record<string, AttributeInput>>;
  readonly operands: readonly (Tensor | undefined)[];
  /** Positions of operands that the model holds. */
  readonly weights?: readonly number[];
  /** Outputs that are asked for; the first alone where left out. */
  readonly outputs?: readonly boolean[];
  /** The kernel's name; empty where nothing is left to do; undefined where the host must have done it. */
  readonly kernel: string | undefined;
  readonly tolerance: number;
  /** False does without subgroups. */
  readonly subgroups?: boolean;
  /** False does without matrices of subgroups. */
  readonly subgroupMatrices?: boolean;
  /** Where its GPU is; the machine's own where left out. */
  readonly place?: Platform;
}

/** The kernel that so many rows of a type run on: with matrices of subgroups where the device has them, else in slices or in tiles. */
export const manyRows = (kind: "product" | "blocks", type: ElementType, m: number, without = false): string =>
  `${kind}${hasSubgroupMatrices && !without && type === "float16" ? "InMatrices" : m <= 64 ? "InSlices" : "InTiles"}`;

/** Random numbers of a type, between −scale and scale. */
export function randomTensor(type: ElementType, shape: readonly number[], seed: number, scale = 1): Tensor {
  const random = seededRandom(seed);
  const view = View.allocate(type, shape);
  writeNumbers(
    view,
    Float64Array.from({ length: view.size }, () => (random() * 2 - 1) * scale),
  );
  return Tensor.fromView(view);
}

/** Random whole numbers of a type, from `least` to `most`. */
export function randomIntegers(
  type: ElementType,
  shape: readonly number[],
  seed: number,
  [least, most]: readonly [number, number] = [0, 255],
): Tensor {
  const random = seededRandom(seed);
  const view = View.allocate(type, shape);
  writeNumbers(
    view,
    Float64Array.from({ length: view.size }, () => least + Math.floor(random() * (most - least + 1))),
  );
  return Tensor.fromView(view);
}

/** A session that keeps the device, and so its pipelines, until the suite is over. */
export async function keepDevice(subgroups = true): Promise<InferenceSession> {
  const model = buildModel({
    opset: 24,
    inputs: [value("x", "float32", [1])],
    outputs: [value("y")],
    initializers: [],
    nodes: [node("Identity", ["x"], ["y"])],
  });
  return InferenceSession.create(writeModel(model), { backend: "webgpu", ...settingsOf(subgroups) });
}

const settingsOf = (subgroups: boolean, subgroupMatrices = true): object =>
  subgroups && subgroupMatrices
    ? {}
    : { webgpu: { ...(subgroups ? {} : { subgroups }), ...(subgroupMatrices ? {} : { subgroupMatrices }) } };

/** Fails unless WebGPU gives what the reference implementation gives, by the kernel that is named; the results, and what the session told. */
export async function compareOneNode(
  what: string,
  given: OneNode,
): Promise<{ readonly results: ReadonlyMap<string, View>; readonly told: string }> {
  const { op, domain = "", opset = 24, attrs = {}, operands, weights = [], outputs = [true], kernel } = given;
  const present = operands.flatMap((tensor, at) => (tensor === undefined ? [] : [{ tensor, at, name: `o${at}` }]));
  const fed = present.filter(({ at }) => !weights.includes(at));
  const bytes = writeModel(
    buildModel({
      opset: domain === "" ? opset : { "": 21, [domain]: 1 },
      inputs: fed.map(({ tensor, name }) => value(name, tensor.type, [...tensor.dims])),
      outputs: outputs.flatMap((asked, at) => (asked ? [value(`r${at}`)] : [])),
      initializers: present
        .filter(({ at }) => weights.includes(at))
        .map(({ tensor, name }) => initializer(name, tensor)),
      nodes: [
        node(
          op,
          operands.map((tensor, at) => (tensor === undefined ? "" : `o${at}`)),
          outputs.map((asked, at) => (asked ? `r${at}` : "")),
          attrs,
          { domain },
        ),
      ],
    }),
  );
  const feeds = Object.fromEntries(fed.map(({ tensor, name }) => [name, tensor]));
  const run = async (options: object, place?: Platform): Promise<{ results: Map<string, View>; told: string }> => {
    const settings = { ...options, graphOptimizationLevel: "disabled" } as const;
    const session =
      place === undefined
        ? await InferenceSession.create(bytes, settings)
        : await PlacedSession.on(place, bytes, settings);
    try {
      const results = await session.run(feeds);
      return {
        results: new Map(Object.entries(results).map(([name, tensor]) => [name, tensor.toView()])),
        told: String(session.explain()),
      };
    } finally {
      await session.release();
    }
  };
  const expected = await run({ backend: "reference" });
  const settings = settingsOf(given.subgroups ?? true, given.subgroupMatrices);
  const actual = await run({ backend: "webgpu", ...settings }, given.place);
  for (const [name, view] of expected.results)
    expect(compareViews(actual.results.get(name)!, view, { tolerance: given.tolerance }), `${what}, ${name}`).toBe("");
  expect(actual.told, what).toContain(kernel === undefined ? "reference" : kernel && `by ${kernel}`);
  return actual;
}
