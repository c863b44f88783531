// Shaders that multiply matrices of subgroups, checked where no device does: they compile without a warning, stay within the memory they were chosen for, and every array of
// theirs is a multiple of 16 bytes, as loads of matrices need.
import { expect, test } from "vitest";
import { CallRecorder } from "../../src/backends/webgpu/recorder.js";
import { recordInMatrices } from "../../src/ops/shared/webgpu/attention-matrices.js";
import { headsOf } from "../../src/ops/shared/webgpu/heads.js";
import { ownTable } from "../../src/ops/shared/webgpu/tables.js";
import { matrixProduct } from "../../src/ops/shared/webgpu/product-matrices.js";
import { stridedHalves } from "../../src/ops/shared/webgpu/product-operands.js";
import type { DeviceTraits, Dispatch } from "../../src/webgpu-kernels/webgpu-kernel.js";
import { hasDawn, NullDevice, operand, traitsWith, type WeightKind, weightsFor } from "./null-device.js";

const kinds: readonly WeightKind[] = [
  "float16",
  ...([2, 4, 8] as const).flatMap((bits) => (["one", "packed", "elements"] as const).map((zeros) => ({ bits, zeros }))),
];

const plain = {
  code: "fn finish(batch: u32, row: u32, column: u32, sum: f32) -> f32 { return sum; }",
  bindings: [],
  parameters: {},
};

function product(m: number, k: number, n: number, kind: WeightKind, traits: DeviceTraits): Dispatch | undefined {
  const a = operand("float16", [m, k]);
  const weights = weightsFor(kind, k, n, traits);
  const left = stridedHalves("left", a, { row: k, k: 1, batch: [] }, { rows: m, k });
  const output = operand("float16", [m, n]);
  return matrixProduct({ name: "p", m, n, k, batch: [], left, right: weights.halves!, finish: plain, output }, traits);
}

function attention(size: number, valueSize: number, traits: DeviceTraits, isPacked = false): Dispatch | undefined {
  const recorder = new CallRecorder(traits, new Set());
  const heads = (count: number, rows: number, width: number): ReturnType<typeof headsOf> =>
    headsOf(operand("float16", [1, count, rows, width]), count);
  recordInMatrices(
    {
      query: heads(4, 20, size),
      key: heads(2, 40, size),
      value: heads(2, 40, valueSize),
      output: heads(4, 20, valueSize),
      packed: isPacked
        ? { starts: ownTable("starts", operand("int64", [4])), samples: 3, serves: "several" }
        : undefined,
      lengths: undefined,
      past: 20,
      causal: true,
      left: -1,
      right: -1,
      window: 7,
      mask: undefined,
      scale: 0.1,
      softcap: 3,
      sink: "zero",
    },
    recorder,
  );
  return recorder.dispatches[0];
}

/** Bytes of a shader's arrays in workgroup memory. */
const arraysOf = (code: string): number[] =>
  [...code.matchAll(/var<workgroup> \w+: array<(f16|f32|atomic<u32>), (\d+)>/g)].map(
    ([, type, count]) => (type === "f16" ? 2 : 4) * Number(count),
  );

test.skipIf(!hasDawn)("they compile, fit, and lie so that matrices can be loaded", async () => {
  const device = await NullDevice.open();
  const checked = async (dispatch: Dispatch, traits: DeviceTraits, what: string): Promise<void> => {
    expect(await device.messagesOf(dispatch), what).toEqual([]);
    const arrays = arraysOf(dispatch.code);
    expect(arrays.length, what).toBeGreaterThan(1);
    for (const bytes of arrays) expect(bytes % 16, what).toBe(0);
    expect(
      arrays.reduce((sum, bytes) => sum + bytes, 0),
      what,
    ).toBeLessThanOrEqual(traits.workgroupBytes);
  };
  let taken = 0;
  for (const traits of [traitsWith(49152), traitsWith(32768), traitsWith(16384), traitsWith(32768, 64)]) {
    const told = `${traits.workgroupBytes} bytes, subgroups of ${traits.subgroup}`;
    for (const [m, k, n] of [
      [9, 8, 4],
      [32, 1024, 1024],
      [33, 100, 4096],
      [64, 72, 8000],
      [70, 40, 66],
      [1000, 256, 2048],
    ])
      for (const kind of kinds) {
        const dispatch = product(m, k, n, kind, traits);
        if (dispatch === undefined) continue;
        taken++;
        await checked(dispatch, traits, `[${m},${k}] · [${k},${n}] ${JSON.stringify(kind)}, ${told}`);
      }
    for (const [size, valueSize] of [
      [128, 128],
      [64, 64],
      [32, 16],
      [80, 112],
    ]) {
      for (const isPacked of [false, true]) {
        const dispatch = attention(size, valueSize, traits, isPacked);
        if (dispatch === undefined) continue;
        taken++;
        await checked(dispatch, traits, `heads of ${size} and ${valueSize}${isPacked ? ", packed" : ""}, ${told}`);
      }
    }
  }
  expect(taken).toBeGreaterThan(40);
  device.release();
});
