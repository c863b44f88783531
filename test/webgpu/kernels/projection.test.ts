// Projection on WebGPU against the reference implementation of what it stands for: floats and blocks, few rows and many, with norms, gates, biases and addends, columns
// that end in the middle of a team, with and without subgroups, and rows whose squares leave float32.
import { afterAll, beforeAll, describe, test } from "vitest";
import { type AttributeInput, float } from "../../../src/onnx/build.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { noWebgpu } from "../../support/backends.js";
import { compareOneNode, keepDevice, randomIntegers, randomTensor } from "./product-models.js";

interface Form {
  readonly type: "float32" | "float16";
  readonly rows: number;
  readonly k: number;
  readonly n: number;
  /** Bits of the weights; floats where left out. */
  readonly bits?: 4 | 8;
  readonly zeros?: boolean;
  readonly norm?: boolean;
  readonly gated?: boolean;
  readonly bias?: boolean;
  readonly addend?: boolean;
  readonly scale?: number;
  readonly subgroups?: boolean;
  readonly kernel: string;
}

const blockSize = 32;

async function check(form: Form): Promise<void> {
  const { type, rows, k, n, bits, gated = false, scale = 1 } = form;
  const blocks = Math.ceil(k / blockSize);
  const numbers = (dims: readonly number[], seed: number, size = 1): Tensor => randomTensor(type, dims, seed, size);
  const optional = (wanted: boolean | undefined, make: () => Tensor): Tensor | undefined =>
    wanted === true ? make() : undefined;
  const bytes = (dims: readonly number[], seed: number): Tensor => randomIntegers("uint8" as ElementType, dims, seed);
  const attrs: Record<string, AttributeInput> = { K: k, N: n, epsilon: float(1e-5), gated: gated ? 1 : 0 };
  if (bits !== undefined) Object.assign(attrs, { bits, block_size: blockSize });
  await compareOneNode(JSON.stringify(form), {
    op: "Projection",
    domain: "insitu",
    attrs,
    operands: [
      numbers([1, rows, k], 1, scale),
      bits === undefined ? numbers([k, n], 2, 2 / Math.sqrt(k)) : bytes([n, blocks, (blockSize * bits) / 8], 2),
      bits === undefined ? undefined : numbers([n, blocks], 3, 1 / 2 ** bits / Math.sqrt(k)),
      optional(form.zeros, () => bytes([n, Math.ceil((blocks * bits!) / 8)], 4)),
      optional(form.bias, () => numbers([n], 5)),
      optional(form.norm, () => numbers([k], 6)),
      optional(form.addend, () => numbers([1, rows, gated ? n / 2 : n], 7)),
    ],
    weights: [1, 2, 3, 4, 5],
    kernel: form.kernel,
    // The reference implementation rounds every stage to the type.
    tolerance: type === "float16" ? 2e-2 : 1e-4,
    subgroups: form.subgroups ?? true,
  });
}

describe.skipIf(noWebgpu !== undefined)("Projection on WebGPU", () => {
  let devices: readonly Awaited<ReturnType<typeof keepDevice>>[];
  beforeAll(async () => {
    devices = [await keepDevice(), await keepDevice(false)];
  });
  afterAll(() => Promise.all(devices.map((device) => device.release())));

  test.each<Form>([
    { type: "float32", rows: 1, k: 64, n: 48, kernel: "projection" },
    { type: "float32", rows: 1, k: 70, n: 37, norm: true, bias: true, kernel: "projection" },
    { type: "float16", rows: 1, k: 136, n: 34, norm: true, addend: true, kernel: "projection" },
    { type: "float16", rows: 3, k: 64, n: 40, norm: true, gated: true, kernel: "gatedProjection" },
    { type: "float32", rows: 2, k: 2560, n: 16, addend: true, kernel: "projection" },
    { type: "float32", rows: 8, k: 96, n: 20, norm: true, gated: true, bias: true, kernel: "gatedProjection" },
    { type: "float32", rows: 1, k: 64, n: 24, norm: true, scale: 1e30, kernel: "projection" },
    { type: "float32", rows: 1, k: 96, n: 30, norm: true, addend: true, subgroups: false, kernel: "projection" },
  ])("floats: %o", check);

  // With subgroups of 4 or of 32, in which a row has as many chunks.
  test.each<Form>([
    ...[16, 12, 13, 128, 120].flatMap((k): Form[] => [
      { type: "float32", rows: 1, k, n: 50, norm: true, bias: true, addend: true, kernel: "projection" },
      {
        type: "float32",
        rows: 1,
        k,
        n: 44,
        norm: true,
        gated: true,
        bias: true,
        addend: true,
        kernel: "gatedProjection",
      },
    ]),
    { type: "float16", rows: 1, k: 32, n: 18, norm: true, gated: true, addend: true, kernel: "gatedProjection" },
    { type: "float16", rows: 1, k: 32, n: 34, norm: true, addend: true, kernel: "projection" },
    {
      type: "float32",
      rows: 1,
      k: 128,
      n: 64,
      bits: 4,
      zeros: true,
      norm: true,
      gated: true,
      kernel: "gatedProjection",
    },
    { type: "float32", rows: 1, k: 16, n: 140_000, norm: true, bias: true, kernel: "projection" },
    { type: "float32", rows: 2, k: 16, n: 50, norm: true, bias: true, kernel: "projection" },
    { type: "float32", rows: 1, k: 4, n: 50, norm: true, bias: true, subgroups: false, kernel: "projection" },
  ])("a team that is a subgroup: %o", check);

  // Teams of 128, 96, 64 and 32, which have as many chunks each.
  test.each<Form>([
    { type: "float32", rows: 1, k: 1024, n: 20, addend: true, kernel: "projection" },
    { type: "float32", rows: 1, k: 1152, n: 20, addend: true, kernel: "projection" },
    { type: "float32", rows: 1, k: 384, n: 21, addend: true, subgroups: false, kernel: "projection" },
    { type: "float32", rows: 1, k: 768, n: 20, bias: true, kernel: "projection" },
    { type: "float16", rows: 3, k: 768, n: 20, bits: 4, addend: true, kernel: "projection" },
    { type: "float32", rows: 1, k: 128, n: 20, kernel: "projection" },
  ])("a team that is a workgroup: %o", check);

  test.each<Form>([
    { type: "float32", rows: 1, k: 64, n: 48, bits: 4, norm: true, kernel: "projection" },
    {
      type: "float16",
      rows: 1,
      k: 96,
      n: 64,
      bits: 4,
      zeros: true,
      norm: true,
      gated: true,
      kernel: "gatedProjection",
    },
    { type: "float32", rows: 1, k: 80, n: 33, bits: 8, bias: true, addend: true, kernel: "projection" },
    { type: "float16", rows: 5, k: 2304, n: 24, bits: 4, addend: true, kernel: "projection" },
    {
      type: "float32",
      rows: 2,
      k: 64,
      n: 40,
      bits: 8,
      zeros: true,
      norm: true,
      subgroups: false,
      kernel: "projection",
    },
  ])("blocks: %o", check);

  test.each<Form>([
    { type: "float32", rows: 9, k: 64, n: 48, norm: true, addend: true, kernel: "rmsNormalization, productInSlices" },
    {
      type: "float16",
      rows: 20,
      k: 64,
      n: 72,
      norm: true,
      gated: true,
      // In slices, or in matrices where the device multiplies them.
      kernel: "rmsNormalization, product",
    },
    {
      type: "float32",
      rows: 12,
      k: 96,
      n: 40,
      bits: 4,
      norm: true,
      gated: true,
      addend: true,
      kernel: "rmsNormalization, blocksInSlices, gate",
    },
    { type: "float32", rows: 17, k: 64, n: 36, bits: 8, bias: true, addend: true, kernel: "blocksInSlices" },
  ])("many rows: %o", check);
});
