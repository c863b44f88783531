// Products of one row as an NVIDIA GPU has them, checked where there is none. Behind a norm several teams share a workgroup: with subgroups of 32 each is one, and its sums
// stay in registers. Without a norm one team is the workgroup, and every invocation has as many chunks. Shapes are those of Qwen3-0.6B.
// A tripwire: it reads the text of shaders, and a change of how they are written may have to change it too.
import { expect, test } from "vitest";
import { stridedQuads } from "../../src/ops/shared/webgpu/product-operands.js";
import { rowProjection } from "../../src/ops/shared/webgpu/projection-rows.js";
import type { DeviceTraits, Dispatch } from "../../src/webgpu-kernels/webgpu-kernel.js";
import { hasDawn, NullDevice, operand, traitsWith, type WeightKind, weightsFor } from "./null-device.js";

interface Form {
  readonly name: string;
  readonly k: number;
  readonly n: number;
  readonly norm?: boolean;
  readonly gated?: boolean;
  readonly addend?: boolean;
}

const forms: readonly Form[] = [
  { name: "Q, K and V", k: 1024, n: 4096, norm: true },
  { name: "attention's output", k: 2048, n: 1024, addend: true },
  { name: "gate and up", k: 1024, n: 6144, norm: true, gated: true },
  { name: "down", k: 3072, n: 1024, addend: true },
];

/** The dispatch of one, and the chunks of a column. Operands tell types and places: what they hold plays no part. */
function dispatchOf(
  { k, n, norm, gated = false, addend }: Form,
  kind: WeightKind,
  traits: DeviceTraits,
): { readonly dispatch: Dispatch; readonly chunks: number } {
  const columns = gated ? n / 2 : n;
  const weights = weightsFor(kind, k, n, traits);
  const work = {
    name: "projection",
    n,
    k,
    left: stridedQuads("left", operand("float16", [1, k]), { row: k, k: 1, batch: [] }, { rows: 1, k }),
    weights,
    norm:
      norm === true
        ? {
            factor: stridedQuads("factor", operand("float16", [k]), { row: 0, k: 1, batch: [] }, { rows: 1, k }),
            epsilon: 1e-6,
          }
        : undefined,
    bias: undefined,
    gated,
    addend: addend === true ? operand("float16", [1, columns]) : undefined,
    output: operand("float16", [1, columns]),
  };
  return { dispatch: rowProjection(work, traits)!, chunks: weights.chunks };
}

/** Sums that go through workgroup memory. */
const sumsApart = /\bparts\[/;
const threadsOf = (code: string): number => Number(/@workgroup_size\((\d+)\)/.exec(code)![1]);

test.skipIf(!hasDawn)("teams of subgroups keep their sums, others are even, and all of them compile", async () => {
  const device = await NullDevice.open();
  for (const subgroup of [32, undefined])
    for (const form of forms)
      for (const kind of ["float16", { bits: 4, zeros: "one" }] as const) {
        const traits = { ...traitsWith(49_152), subgroup };
        const { dispatch, chunks } = dispatchOf(form, kind, traits);
        const what = `${form.name}, ${JSON.stringify(kind)}, subgroups of ${subgroup}`;
        expect(await device.messagesOf(dispatch), what).toEqual([]);
        expect(sumsApart.test(dispatch.code), what).toBe(subgroup === undefined || form.norm !== true);
        if (form.norm !== true) expect(chunks % threadsOf(dispatch.code), what).toBe(0);
      }
  device.release();
});
