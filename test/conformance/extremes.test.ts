// Zeros, infinities, NaN, the largest and subnormal numbers, and scores of 10⁴ softcaps, through every function of elements, every form of
// attention, norms, gates and products, on every backend: onnxruntime's answer, or a difference that extremes.json lists with its reason. One
// that is listed and no longer there fails. generate/extremes.mjs asked onnxruntime, and the reference implementation where that has no kernel.
// The tests run some of the forms, always the same ones, the soak all.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { difference } from "../../tools/conformance/compare.js";
import { InferenceSession } from "../../src/entry/node.js";
import { readTensor } from "../../src/onnx/read.js";
import { tensorView } from "../../src/onnx/model.js";
import { Tensor } from "../../src/tensor/tensor.js";
import type { View } from "../../src/tensor/view.js";
import type { SessionOptions } from "../../src/session/options.js";
import { noWebgpu } from "../support/backends.js";
import { keepDevice } from "../support/device.js";
import { soak } from "../support/soak.js";

/** Results that are not the archive's, and why. */
interface Difference {
  readonly reason: string;
  /** Where it is so. */
  readonly on: readonly string[];
  /** Forms, sets and outputs, as in "attention_1_float32: a NaN in q: y". */
  readonly cases: readonly string[];
  /** True where it is the device's own matter. */
  readonly sometimes?: true;
}

const { differences } = JSON.parse(readFileSync(new URL("extremes.json", import.meta.url), "utf8")) as {
  readonly differences: readonly Difference[];
};
/** Forms that the tests run: each kind of kernel once, since SwiftShader takes long to compile them. */
const sample =
  /^(attention_(1|softcap_20|scores)_float16|attention_(softcap_1|mask_20|grouped_9)_float32|cached_attention_1_float16|elements_float16|gate_float32|group_query_attention_sink_5_float16|matmul_weights_0_1_float16|paged_attention_1_float16|softmax_float32|causal_conv_float32)$/;

/** How far results may be: 16-bit floats by a few of their steps, since stages are rounded or not. */
const tolerances: Readonly<Record<string, { readonly rtol: number; readonly atol: number }>> = {
  float32: { rtol: 1e-4, atol: 1e-5 },
  float16: { rtol: 1e-2, atol: 4e-3 },
  bfloat16: { rtol: 4e-2, atol: 3e-2 },
};

interface Form {
  readonly name: string;
  readonly model: Uint8Array;
  readonly answeredBy: string;
  readonly sets: readonly string[];
  /** A tensor of a set: "input_0" or "output_0". */
  readonly tensor: (set: number, file: string) => View | undefined;
}

const files = readArchive(fileURLToPath(new URL("onnxruntime-extremes.tar.br", import.meta.url))) as Map<
  string,
  Uint8Array
>;
const forms: readonly Form[] = [...files].flatMap(([path, model]) => {
  if (!path.endsWith("/model.onnx")) return [];
  const name = path.slice(0, -"/model.onnx".length);
  const meta = Buffer.from(files.get(`${name}/meta.json`)!).toString();
  return {
    ...(JSON.parse(meta) as Pick<Form, "answeredBy" | "sets">),
    name,
    model,
    tensor(set, file) {
      const bytes = files.get(`${name}/test_data_set_${set}/${file}.pb`);
      return bytes === undefined ? undefined : tensorView(readTensor(bytes));
    },
  };
});

/** What a form gives on a backend: for each output of each set what is different, or undefined. */
async function outcomes(
  { name, model, sets, tensor }: Form,
  options: SessionOptions,
): Promise<Map<string, string | undefined>> {
  const found = new Map<string, string | undefined>();
  const session = await InferenceSession.create(model, options);
  try {
    for (const [at, label] of sets.entries()) {
      const feeds = session.inputNames.map((input, i) => [input, Tensor.fromView(tensor(at, `input_${i}`)!)] as const);
      const results = await session.run(Object.fromEntries(feeds));
      for (const [i, output] of session.outputNames.entries()) {
        const expected = tensor(at, `output_${i}`)!;
        const tolerance = tolerances[expected.type] ?? tolerances["float32"];
        found.set(`${name}: ${label}: ${output}`, difference(results[output].toView(), expected, tolerance));
      }
    }
  } finally {
    await session.release();
  }
  return found;
}

const run = forms.filter(({ name }) => soak || sample.test(name));

const backends: readonly (readonly [name: string, options: SessionOptions])[] = [
  ["reference", { backend: "reference" }],
  ["wasm", { backend: "wasm", threads: 1 }],
  ["wasm without relaxed SIMD", { backend: "wasm", threads: 1, wasm: { relaxedSimd: false } }],
  ...(noWebgpu === undefined ? [["webgpu", { backend: "webgpu" }] as const] : []),
];

describe.each(backends)("extremes on %s", (backend, options) => {
  let letGo: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    if (backend === "webgpu") letGo = await keepDevice();
  });
  afterAll(() => letGo?.());

  test(`${run.length} forms`, async () => {
    const found = new Map<string, string | undefined>();
    for (const form of run) for (const [id, problem] of await outcomes(form, options)) found.set(id, problem);
    const listed = differences.filter(({ on }) => on.some((each) => backend.startsWith(each)));
    const known = new Set(listed.flatMap(({ cases }) => cases));
    const wrong = [...found].flatMap(([id, problem]) =>
      problem === undefined || known.has(id) ? [] : [`${id}: ${problem}`],
    );
    const mended = listed.flatMap(({ cases, sometimes, reason }) =>
      sometimes === true
        ? []
        : cases.filter((id) => found.has(id) && found.get(id) === undefined).map((id) => `${id}: ${reason}`),
    );
    expect({ wrong, mended }).toEqual({ wrong: [], mended: [] });
  });
});

test("no difference is listed of what is not there", () => {
  const ids = new Set(forms.flatMap(({ name, sets }) => sets.map((label) => `${name}: ${label}`)));
  const unknown = differences.flatMap(({ cases }) => cases.filter((id) => !ids.has(id.slice(0, id.lastIndexOf(": ")))));
  expect(unknown).toEqual([]);
});
