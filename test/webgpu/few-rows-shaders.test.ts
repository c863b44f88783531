// Products of few rows as GPUs have them, checked where there is none: shaders of all variants compile for subgroups of 32 and without any, stay within the memory that a device
// has, load every weight once, and read the rows as seldom as they are meant to. Shapes are those of Qwen3-0.6B.
import { describe, expect, test } from "vitest";
import { fewRowsProduct } from "../../src/ops/shared/webgpu/few-rows.js";
import { columns, divideFewRows } from "../../src/ops/shared/webgpu/few-rows-division.js";
import { rowQuads, stridedQuads } from "../../src/ops/shared/webgpu/product-operands.js";
import type { DeviceTraits, Dispatch } from "../../src/webgpu-kernels/webgpu-kernel.js";
import { soak } from "../support/soak.js";
import { hasDawn, NullDevice, operand, traitsWith, type WeightKind, weightsFor } from "./null-device.js";

interface Form {
  readonly name: string;
  readonly k: number;
  readonly n: number;
  readonly norm?: boolean;
  readonly gated?: boolean;
}

const forms: readonly Form[] = [
  { name: "Q, K and V", k: 1024, n: 4096, norm: true },
  { name: "attention's output", k: 2048, n: 1024 },
  { name: "gate and up", k: 1024, n: 6144, norm: true, gated: true },
  { name: "down", k: 3072, n: 1024 },
  { name: "head", k: 1024, n: 32_000 },
  { name: "odd", k: 203, n: 36, norm: true },
];

const kinds: readonly WeightKind[] = [
  "float16",
  ...([2, 4, 8] as const).map((bits) => ({ bits, zeros: "one" }) as const),
];

const finish = {
  code: "fn finish(batch: u32, row: u32, column: u32, sum: f32) -> f32 { return sum; }",
  bindings: [],
  parameters: {},
};
const gate = {
  code: "fn gated(row: u32, column: u32, gate: f32, up: f32) -> f32 { return gate * up; }",
  bindings: [],
  parameters: {},
};

/** The dispatch of one. Operands tell types and places: what they hold plays no part. */
function dispatchOf({ k, n, norm, gated }: Form, m: number, kind: WeightKind, traits: DeviceTraits): Dispatch {
  const factor = stridedQuads("factor", operand("float16", [k]), { row: 0, k: 1, batch: [] }, { rows: 1, k });
  return fewRowsProduct(
    {
      name: "product",
      m,
      n,
      k,
      left: rowQuads("left", operand("float16", [m, k]), { row: k, k: 1 }, { rows: m, k }),
      weights: weightsFor(kind, k, n, traits),
      norm: norm === true ? { factor, epsilon: 1e-6 } : undefined,
      finish,
      gate: gated === true ? gate : undefined,
      output: operand("float16", [m, gated === true ? n / 2 : n]),
    },
    traits,
  );
}

const elementBytes: Readonly<Record<string, number>> = { vec4f: 16, vec2f: 8 };

/** Bytes of workgroup memory that a shader declares. */
const memoryOf = ({ code }: Dispatch): number =>
  [...code.matchAll(/var<workgroup> \w+: array<(\w+), (\d+)>/g)].reduce(
    (sum, [, type, count]) => sum + Math.ceil((elementBytes[type] * Number(count)) / 16) * 16,
    0,
  );

const workgroupsOf = ({ workgroups: [x, y = 1, z = 1] }: Dispatch): number => x * y * z;

// All of them in the soak; otherwise each form with each kind of weights, in one of the numbers of rows.
test.skipIf(!hasDawn)("variants compile", async () => {
  const device = await NullDevice.open();
  const counts = [2, 3, 4, 5, 8];
  for (const subgroup of [32, undefined])
    for (const [at, form] of forms.entries())
      for (const [own, kind] of kinds.entries())
        for (const m of soak ? counts : [counts[(at + own + (subgroup === undefined ? 2 : 0)) % counts.length]]) {
          const traits = { ...traitsWith(49_152), subgroup };
          const dispatch = dispatchOf(form, m, kind, traits);
          const what = `${m} rows, ${form.name}, ${JSON.stringify(kind)}, subgroups of ${subgroup}`;
          expect(await device.messagesOf(dispatch), what).toEqual([]);
          expect(await device.messagesOf({ ...dispatch, fixed: false }), what).toEqual([]);
        }
  device.release();
});

test("rows that are padded up share a shader, and 2, 4 and 8 need no count", () => {
  const of = (m: number): Dispatch => dispatchOf(forms[0], m, "float16", traitsWith(49_152));
  expect(of(5).code).toBe(of(7).code);
  expect({ ...of(5).parameters, m: 7 }).toEqual(of(7).parameters);
  expect([2, 3, 4, 5, 8].map((m) => [of(m).name, of(m).open])).toEqual([
    ["product2", undefined],
    ["product4", ["m"]],
    ["product4", undefined],
    ["product8", ["m"]],
    ["product8", undefined],
  ]);
});

test.each([16_384, 32_768, 49_152])("workgroup memory of %d bytes is not exceeded", (bytes) => {
  for (const subgroup of [undefined, 4, 32, 64])
    for (const form of [...forms, { name: "long", k: 8192, n: 8192, norm: true }])
      for (const kind of kinds)
        for (const m of [2, 4, 8]) {
          const dispatch = dispatchOf(form, m, kind, { ...traitsWith(bytes), subgroup });
          expect(memoryOf(dispatch), `${m} rows, ${form.name}, subgroups of ${subgroup}`).toBeLessThanOrEqual(bytes);
        }
});

describe("what is read, of 8 rows", () => {
  const traits = traitsWith(49_152);
  const int4 = { bits: 4, zeros: "one" } as const;
  /** Bytes of float16 rows that all workgroups read together, in MiB; those that hold them read them once. */
  const rowsRead = (form: Form): number => (workgroupsOf(dispatchOf(form, 8, int4, traits)) * 8 * form.k * 2) / 2 ** 20;

  test("rows are held where teams share them, whole in an H200's memory", () => {
    const heldOf = ({ k, n, norm = false }: Form): number =>
      divideFewRows({ m: 8, n, chunk: 32, chunks: k / 32, hasNorm: norm }, traits).held;
    expect(forms.slice(0, 5).map(heldOf)).toEqual([8, 0, 8, 0, 8]);
  });

  test("workgroups read few bytes of rows", () => {
    expect(forms.slice(0, 5).map(rowsRead)).toEqual([2, 8, 3, 12, 15.625]);
  });

  test("each weight is loaded by one invocation, once", () => {
    for (const form of forms.slice(0, 5))
      for (const m of [2, 4, 8]) {
        const dispatch = dispatchOf(form, m, int4, traits);
        const { lanes, ahead, threads, turns } = divideFewRows(
          { m, n: form.n, chunk: 32, chunks: form.k / 32, hasNorm: form.norm === true },
          traits,
        );
        const loads = dispatch.code.match(/= weightChunk\(/g)!.length;
        expect(loads, form.name).toBe(ahead * columns);
        const passes = Math.ceil(form.k / 32 / (lanes * ahead));
        expect(workgroupsOf(dispatch) * threads * turns * passes * loads, form.name).toBe((form.n * form.k) / 32);
      }
  });
});
