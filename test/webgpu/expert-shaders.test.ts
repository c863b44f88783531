// Experts as GPUs run them, checked where there is none: their shaders compile for subgroups of all sizes and without any, within every device's 256 invocations, whatever the output is, and a token is divided
// over as many workgroups as its routes have rows, not over those of all experts.
import { expect, test } from "vitest";
import { CallRecorder } from "../../src/backends/webgpu/recorder.js";
import { gateExperts, mixExperts, type RoutedProduct } from "../../src/ops/mixture-of-experts/webgpu-blocks.js";
import type { Dispatch } from "../../src/webgpu-kernels/webgpu-kernel.js";
import { hasDawn, NullDevice, operand, traitsWith } from "./null-device.js";

const [experts, hidden, inner, chosen] = [4, 96, 64, 2];
const activation = {
  part: { code: "fn activated(value: f32, linear: f32) -> f32 { return value * linear; }" },
  inner,
} as const;

/** The dispatches of some tokens. */
function dispatchesOf(
  tokens: number,
  { subgroup, bits, zeros }: { readonly subgroup: number | undefined; readonly bits: 4 | 8; readonly zeros: boolean },
  fusion: "none" | "interleaved" | "halves",
  type: "float32" | "float16",
): readonly Dispatch[] {
  const recorder = new CallRecorder({ ...traitsWith(49_152), subgroup }, new Set());
  const count = tokens * chosen;
  const product = (n: number, k: number): RoutedProduct => ({
    operands: {
      weights: operand("uint8", [experts, n, (k * bits) / 8]),
      scales: operand(type, [experts, n, k / 32]),
      zeros: zeros ? operand("uint8", [experts, n, Math.ceil((k / 32) * (bits / 8))]) : undefined,
      bias: operand(type, [experts, n]),
    },
    form: { bits, blockSize: 32 },
    n,
    k,
    chosen,
    count,
    routes: operand("uint32", [2 * count]),
  });
  const rows = operand("float32", [count, inner]);
  const wide = fusion === "none" ? inner : 2 * inner;
  gateExperts(product(wide, hidden), operand(type, [tokens, hidden]), { ...activation, fusion }, rows, recorder);
  mixExperts(product(hidden, inner), rows, operand(type, [tokens, hidden]), recorder);
  return recorder.dispatches;
}

test.skipIf(!hasDawn)("all variants compile", async () => {
  const device = await NullDevice.open();
  for (const subgroup of [8, 32, 64, 128, undefined])
    for (const bits of [4, 8] as const)
      for (const zeros of [false, true])
        for (const fusion of ["none", "interleaved", "halves"] as const)
          for (const type of ["float32", "float16"] as const)
            for (const dispatch of dispatchesOf(1, { subgroup, bits, zeros }, fusion, type)) {
              const what = `${dispatch.name}: ${JSON.stringify({ subgroup, bits, zeros, fusion, type })}`;
              expect(await device.messagesOf(dispatch), what).toEqual([]);
              expect(Number(/@workgroup_size\((\d+)\)/.exec(dispatch.code)![1]), what).toBeLessThanOrEqual(256);
            }
  device.release();
});

test("a token takes as many workgroups as the rows of its experts fill", () => {
  for (const tokens of [1, 5]) {
    const [gate, mix] = dispatchesOf(tokens, { subgroup: 32, bits: 4, zeros: false }, "interleaved", "float16");
    const workgroupsOf = ({ workgroups: [x, y = 1] }: Dispatch): number => x * y;
    // Four rows a team, four teams a workgroup; four columns a workgroup, a team for each route.
    expect(workgroupsOf(gate)).toBe((tokens * chosen * 2 * inner) / 16);
    expect(workgroupsOf(mix)).toBe((tokens * hidden) / 4);
  }
});
