/** The runner of cases itself: what must not pass does not, and says why. In memory, and as the command reads folders. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type CaseFiles, type CaseResult, runCase } from "../../tools/conformance/case.js";
import { readCase } from "../../tools/cli/conformance.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelTensor } from "../../src/onnx/model.js";
import { writeModel, writeTensor } from "../../src/onnx/write.js";
import { valueText } from "../../src/base/value-text.js";

const floats = (...numbers: readonly number[]): Uint8Array =>
  pb(initializer("t", "float32", numbers, [numbers.length]));
const pb = (tensor: ModelTensor): Uint8Array => writeTensor(tensor);

/** y = −x, z = x + w, with a default for w. */
const model = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", ["n"]), value("w", "float32", [1])],
    outputs: [value("y", "float32", ["n"]), value("z", "float32", ["n"])],
    initializers: [initializer("w", "float32", [1], [1])],
    nodes: [node("Neg", ["x"], ["y"]), node("Add", ["x", "w"], ["z"])],
  }),
);
const good = { inputs: [floats(1, 2)], outputs: [floats(-1, -2), floats(2, 3)] };
const files = (more: Partial<CaseFiles> = {}): CaseFiles => ({
  name: "case",
  model,
  tolerance: {},
  sets: [good],
  ...more,
});
const run = (given: CaseFiles): Promise<CaseResult> =>
  runCase(given, (source) => InferenceSession.create(source, { backend: "reference" }));
const withSet = (more: Partial<CaseFiles["sets"][number]>): CaseFiles => files({ sets: [{ ...good, ...more }] });
const outputs = (y: Uint8Array): CaseFiles => withSet({ outputs: [y, good.outputs[1]] });

test("what is right passes", async () => {
  const passed = { name: "case", status: "passed" };
  expect(await run(files())).toEqual(passed);
  expect(await run(withSet({ inputs: [floats(1, 2), floats(5)], outputs: [floats(-1, -2), floats(6, 7)] }))).toEqual(
    passed,
  );
  expect(await run(files({ tolerance: { rtol: 0, atol: 0 } }))).toEqual(passed);
  const odd = [NaN, Infinity, -Infinity, 0];
  const negated = odd.map((number) => -number);
  expect(
    await run(
      files({
        sets: [good, { inputs: [floats(...odd)], outputs: [floats(...negated), floats(...odd.map((x) => x + 1))] }],
      }),
    ),
  ).toEqual(passed);
});

test("a case of ONNX's that is off by more than its tolerance has ONNX's own allowance, and no other has", async () => {
  const named = (name: string, off: number, tolerance: CaseFiles["tolerance"] = { rtol: 1e-3, atol: 1e-7 }) =>
    run({
      ...outputs(floats(-1, -2)),
      name,
      tolerance,
      sets: [{ inputs: [floats(0, 2)], outputs: [floats(off, -2), floats(1, 3)] }],
    });
  for (const name of ["test_dft_inverse", "node/test_dft_inverse_opset19"]) {
    expect((await named(name, 1.9e-7)).status).toBe("passed");
    expect((await named(name, 1.9e-7, {})).status).toBe("passed");
    expect((await named(name, 2e-6)).status).toBe("failed");
    expect((await named(name, 1.9e-7, { atol: 0 })).status).toBe("failed");
  }
  for (const name of ["test_dft", "case", "toString"]) expect((await named(name, 1.9e-7)).status).toBe("failed");
});

const failing: readonly [what: string, given: CaseFiles, reason: RegExp][] = [
  ["no data sets", files({ sets: [] }), /^it has no test data/],
  ["an empty data set", files({ sets: [{ inputs: [], outputs: [] }] }), /output_0\.pb is missing, the values of "y"/],
  [
    "a second data set that is empty",
    files({ sets: [good, { inputs: [], outputs: [] }] }),
    /^test_data_set_1: output_0\.pb/,
  ],
  ["no first output", withSet({ outputs: [undefined, good.outputs[1]] }), /output_0\.pb is missing, the values of "y"/],
  ["no second output", withSet({ outputs: [good.outputs[0]] }), /output_1\.pb is missing, the values of "z"/],
  [
    "an output too many",
    withSet({ outputs: [...good.outputs, floats(1)] }),
    /output_2\.pb belongs to no output: the model has 2/,
  ],
  [
    "an input too many",
    withSet({ inputs: [floats(1, 2), floats(1), floats(3)] }),
    /input_2\.pb belongs to no input: the model has 2/,
  ],
  ["no input", withSet({ inputs: [] }), /invalid-feed: input "x".*is missing/],
  ["an input that is no tensor", withSet({ inputs: [Uint8Array.of(1, 2, 3)] }), /invalid-model/],
  ["an output that is no tensor", outputs(new Uint8Array()), /invalid-model/],
  [
    "another number",
    outputs(floats(-1, -2.1)),
    /output "y": 1 of 2 elements differ, most at 1: got -2, expected -2\.0999/,
  ],
  ["NaN for a number", outputs(floats(-1, NaN)), /got -2, expected NaN/],
  ["an infinite number for another", outputs(floats(-1, Infinity)), /got -2, expected Infinity/],
  [
    "the other infinity",
    files({ sets: [{ inputs: [floats(Infinity)], outputs: [floats(Infinity), floats(Infinity)] }] }),
    /got -Infinity, expected Infinity/,
  ],
  [
    "a number for NaN",
    files({ sets: [{ inputs: [floats(NaN)], outputs: [floats(0), floats(NaN)] }] }),
    /got NaN, expected 0/,
  ],
  [
    "another shape",
    outputs(pb(initializer("t", "float32", [-1, -2], [2, 1]))),
    /got float32\[2\], expected float32\[2,1\]/,
  ],
  ["fewer elements", outputs(floats(-1)), /got float32\[2\], expected float32\[1\]/],
  ["a scalar", outputs(pb(initializer("t", "float32", [-1], []))), /expected float32\[\]/],
  ["another type", outputs(pb(initializer("t", "float64", [-1, -2], [2]))), /got float32\[2\], expected float64\[2\]/],
  ["a model that is none", files({ model: Uint8Array.of(1) }), /invalid-model/],
  ...[-1e-9, 1, 1e30, NaN, Infinity, "0.1", null, [], {}, true].map((rtol): (typeof failing)[number] => [
    `rtol ${valueText(rtol)}`,
    files({ tolerance: { rtol } }),
    /its tolerance: rtol must be/,
  ]),
  ...[-1e-9, NaN, Infinity, "0.1", null, [], {}, true].map((atol): (typeof failing)[number] => [
    `atol ${valueText(atol)}`,
    files({ tolerance: { atol } }),
    /its tolerance: atol must be/,
  ]),
  [
    "atol as large as the numbers",
    files({ tolerance: { atol: 3 } }),
    /atol 3 tells nothing apart beside numbers of at most 2/,
  ],
  ["atol as large as can be", files({ tolerance: { atol: 1e300 } }), /tells nothing apart/],
];

describe("what is wrong fails", () => {
  for (const [what, given, reason] of failing) {
    test(what, async () => {
      const result = await run(given);
      expect(result.status, result.reason).toBe("failed");
      expect(result.reason).toMatch(reason);
    });
  }

  test("also where the result is random, unless only its values differ", async () => {
    const random = writeModel(
      buildModel({
        opset: 22,
        inputs: [value("x", "float32", ["n"])],
        outputs: [value("y", "float32", ["n"])],
        nodes: [node("Dropout", ["x", "half", "yes"], ["y"])],
        initializers: [initializer("half", "float32", [0.5], []), initializer("yes", "bool", [true], [])],
      }),
    );
    const many = floats(...Array.from({ length: 64 }, (_, at) => at + 1));
    const set = (output: Uint8Array | undefined): CaseFiles =>
      files({ model: random, sets: [{ inputs: [many], outputs: [output] }] });
    expect(await run(set(many))).toEqual({ name: "case", status: "skipped", reason: "its result is random" });
    expect((await run(set(undefined))).reason).toMatch(/output_0\.pb is missing/);
    expect((await run(set(floats(1)))).reason).toMatch(/expected float32\[1\]/);
  });

  test("a model without outputs", async () => {
    const empty = writeModel(buildModel({ opset: 21, inputs: [value("x", "float32", ["n"])] }));
    expect((await run(files({ model: empty, sets: [{ inputs: [floats(1)], outputs: [] }] }))).reason).toMatch(
      /no outputs/,
    );
  });
});

describe("folders", () => {
  const root = mkdtempSync(join(tmpdir(), "insitu-cases-"));
  afterAll(() => rmSync(root, { recursive: true }));
  const folder = (name: string, contents: Readonly<Record<string, Uint8Array | string>>): string => {
    const path = join(root, name);
    mkdirSync(join(path, "test_data_set_0"), { recursive: true });
    for (const [file, content] of Object.entries({ "model.onnx": model, ...contents }))
      writeFileSync(join(path, file), content);
    return path;
  };
  const set = {
    "test_data_set_0/input_0.pb": good.inputs[0],
    "test_data_set_0/output_0.pb": good.outputs[0],
    "test_data_set_0/output_1.pb": good.outputs[1],
  };
  const result = async (path: string): Promise<CaseResult> => run(readCase(path));

  test("as ONNX lays them out", async () => {
    expect(await result(folder("good", set))).toMatchObject({ status: "passed" });
    const { "test_data_set_0/output_1.pb": _, ...one } = set;
    expect((await result(folder("one", one))).reason).toMatch(/output_1\.pb is missing/);
    expect((await result(folder("none", {}))).reason).toMatch(/output_0\.pb is missing/);
    const more = { ...set, "test_data_set_0/output_2.pb": good.outputs[0] };
    expect((await result(folder("more", more))).reason).toMatch(/output_2\.pb belongs to no output/);
  });

  test("with names and notes that cannot be meant", () => {
    for (const name of [
      "output_00.pb",
      "output_.pb",
      "output_-1.pb",
      "input_1e3.pb",
      "output_999999999.pb",
      "input_x.pb",
    ])
      expect(() => readCase(folder(`named ${name}`, { ...set, [`test_data_set_0/${name}`]: floats(1) })), name).toThrow(
        /files are numbered from 0 on/,
      );
    expect(() => readCase(folder("text", { ...set, "meta.json": "{" }))).toThrow(/is not JSON/);
    expect(() => readCase(folder("null", { ...set, "meta.json": "null" }))).toThrow(/must hold an object, got null/);
  });

  test("with tolerances that are none", async () => {
    for (const [meta, reason] of [
      ['{"rtol": 1e400}', /rtol must be/],
      ['{"rtol": "0.1"}', /rtol must be/],
      ['{"atol": -1}', /atol must be/],
      ['{"atol": null}', /atol must be/],
    ] as const)
      expect(
        (await result(folder(`meta ${meta.length} ${meta.at(-2)}`, { ...set, "meta.json": meta }))).reason,
      ).toMatch(reason);
  });
});
