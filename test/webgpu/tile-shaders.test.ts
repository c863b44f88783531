// Shaders of products in tiles, and of prompts' attention without subgroup matrices, checked where no device has float16: they compile without a warning for every kind of weights, and stay within the workgroup memory that
// browsers give at least.
import { expect, test } from "vitest";
import { CallRecorder } from "../../src/backends/webgpu/recorder.js";
import { recordPrefill } from "../../src/ops/shared/webgpu/attention-prefill.js";
import { headsOf } from "../../src/ops/shared/webgpu/heads.js";
import { recordBlocks } from "../../src/ops/shared/webgpu/product.js";
import { usualTuning } from "../../src/webgpu-kernels/tuning.js";
import type { DeviceTraits, Dispatch } from "../../src/webgpu-kernels/webgpu-kernel.js";
import { hasDawn, NullDevice, operand, traitsWith, type WeightKind, weightsFor } from "./null-device.js";

const kinds: readonly WeightKind[] = [
  "float16",
  ...([2, 4, 8] as const).flatMap((bits) => (["one", "packed", "elements"] as const).map((zeros) => ({ bits, zeros }))),
];

const least = 16_384;
const traits: DeviceTraits = { ...traitsWith(least), subgroupMatrix: undefined };
const { manyRows } = usualTuning;

/** The same tiles one at a time, so that each is taken. */
const tunings = (["floatTiles", "halfTiles", "byteTiles"] as const).flatMap((name) =>
  manyRows[name].map((tile) => ({
    name,
    tuning: { ...usualTuning, manyRows: { ...manyRows, floatTiles: [], halfTiles: [], byteTiles: [], [name]: [tile] } },
    tile,
  })),
);

function dispatchesOf(type: "float16" | "float32", kind: WeightKind, device: DeviceTraits): readonly Dispatch[] {
  const [m, k, n] = [100, 72, 66];
  const recorder = new CallRecorder(device, new Set());
  recordBlocks(
    {
      a: operand(type, [m, k]),
      mayRound: true,
      weights: weightsFor(kind, k, n, device),
      bias: undefined,
      output: operand(type, [m, n]),
      n,
      k,
    },
    recorder,
  );
  return recorder.dispatches;
}

const sizes: Readonly<Record<string, number>> = { vec4f: 16, "vec4<f16>": 8, vec4u: 16, f32: 4, vec2i: 8, vec2u: 8 };

/** Bytes of a shader's arrays in workgroup memory. */
const bytesOf = (code: string): number =>
  [...code.matchAll(/var<workgroup> \w+: array<(vec4f|vec4<f16>|vec4u|vec2u|f32|vec2i), (\d+)>/g)].reduce(
    (sum, [, type, count]) => sum + sizes[type] * Number(count),
    0,
  );

const heads = (count: number, rows: number, size: number): ReturnType<typeof headsOf> =>
  headsOf(operand("float16", [1, count, rows, size]), count);
const lasting = { lengths: undefined, past: 20, causal: true, left: -1, right: -1, window: -1, scale: 0.1 };

test.skipIf(!hasDawn)("attention compiles, with subgroups and without, and fits", async () => {
  const device = await NullDevice.open();
  const counts = new Set<string>();
  for (const workgroupBytes of [least, 2 * least])
    for (const subgroup of [32, 16, 8, 4, undefined])
      for (const size of [6, 64, 80, 128, 256, 512])
        for (const softcap of [0, 3]) {
          const recorder = new CallRecorder({ ...traits, f16: false, subgroup, workgroupBytes }, new Set());
          const [query, key] = [heads(4, 20, size), heads(2, 40, size)];
          recordPrefill(
            { ...lasting, query, key, value: key, output: query, mask: undefined, softcap, sink: undefined },
            recorder,
          );
          const [{ code, extensions }] = recorder.dispatches;
          const told = `heads of ${size}, subgroups of ${subgroup}, ${workgroupBytes} bytes`;
          expect(extensions, told).toEqual(code.includes("subgroupShuffleXor") ? ["subgroups"] : []);
          // In subgroups of 8 it depends on the tile.
          if (subgroup !== 8) expect(extensions.length, told).toBe(subgroup !== undefined && subgroup >= 16 ? 1 : 0);
          expect(await device.messagesOf(recorder.dispatches[0]), told).toEqual([]);
          expect(bytesOf(code), told).toBeGreaterThan(0);
          expect(bytesOf(code), told).toBeLessThanOrEqual(workgroupBytes);
          counts.add(/staged: array<vec4f, \d+>/.exec(code)![0]);
        }
  // Larger memories have larger tiles.
  expect(counts.size).toBeGreaterThan(2);
  device.release();
});

test.skipIf(!hasDawn)("attention in float16 compiles and fits", async () => {
  const device = await NullDevice.open();
  const counts = new Set<string>();
  for (const workgroupBytes of [least, 2 * least])
    for (const subgroup of [32, 8, undefined])
      for (const size of [8, 64, 80, 128, 256, 512]) {
        const recorder = new CallRecorder({ ...traits, subgroup, workgroupBytes }, new Set());
        const [query, key] = [heads(4, 20, size), heads(2, 40, size)];
        const work = {
          ...lasting,
          query,
          key,
          value: key,
          output: query,
          mask: undefined,
          softcap: 0,
          sink: undefined,
        };
        const told = `heads of ${size}, subgroups of ${subgroup}, ${workgroupBytes} bytes`;
        recordPrefill(work, recorder);
        const [dispatch] = recorder.dispatches;
        expect(dispatch.name, told).toBe("attentionInHalves");
        expect(dispatch.extensions, told).toContain("f16");
        expect(await device.messagesOf(dispatch), told).toEqual([]);
        expect(bytesOf(dispatch.code), told).toBeLessThanOrEqual(workgroupBytes);
        counts.add(/staged: array<vec4u, \d+>/.exec(dispatch.code)![0]);
        for (const other of [{ softcap: 3 }, { query: heads(4, 20, size + 4) }])
          recordPrefill({ ...work, ...other }, recorder);
        for (const other of recorder.dispatches.slice(1)) expect(other.name, told).toBe("attentionPrefill");
      }
  expect(counts.size).toBeGreaterThan(2);
  device.release();
});

test.skipIf(!hasDawn)("products compile and fit", async () => {
  const device = await NullDevice.open();
  for (const { name, tuning, tile } of tunings)
    for (const kind of kinds)
      for (const type of ["float16", "float32"] as const) {
        if (type === "float32" && name === "halfTiles") continue;
        const told = `${name} ${JSON.stringify(tile)}, ${type} and ${JSON.stringify(kind)}`;
        const fitsBytes = kind !== "float16" && kind.bits !== 2 && kind.zeros !== "elements";
        if (name === "byteTiles" && !(fitsBytes && (kind.bits === 4 || kind.zeros === "one"))) continue;
        const dispatches = dispatchesOf(type, kind, { ...traits, f16: name === "halfTiles", tuning });
        expect(dispatches.at(-1)!.name, told).toBe(name === "byteTiles" ? "blocksInBytes" : "blocksInTiles");
        for (const dispatch of dispatches) {
          expect(await device.messagesOf(dispatch), told).toEqual([]);
          expect(dispatch.extensions.includes("f16"), told).toBe(name === "halfTiles");
          expect(bytesOf(dispatch.code), told).toBeLessThanOrEqual(least);
        }
        expect(bytesOf(dispatches.at(-1)!.code), told).toBeGreaterThan(0);
      }
  device.release();
});
