// What onnxruntime-node (peers/) answers to zeros, infinities, NaN and numbers at the ends of their types, in ONNX's backend-test layout.
// `node test/conformance/generate/extremes.mjs OUT.tar.br`, after a build. What onnxruntime has no kernel for, the reference implementation
// answers; meta.json says who did, and what each set shows. Everything follows from the seed.
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packArchive } from "../../../scripts/archive.mjs";
import { InferenceSession } from "../../../dist/index.node.js";
import { buildModel, initializer, value } from "../../../dist/onnx/build.js";
import { writeModel, writeTensor } from "../../../dist/onnx/write.js";
import { Tensor } from "../../../dist/tensor/tensor.js";
import { elementOutputs, elementSets, forms } from "./extreme-forms.mjs";

const ort = createRequire(new URL("../../../peers/", import.meta.url))("onnxruntime-node");
const folder = mkdtempSync(join(tmpdir(), "extremes-"));
const bytesOf = ({ type, data }) =>
  type === "float16" ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;

async function byOnnxruntime(model, sets) {
  const session = await ort.InferenceSession.create(model, {
    logSeverityLevel: 4,
    graphOptimizationLevel: "disabled",
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
  });
  const answers = [];
  for (const { feeds } of sets) {
    const given = Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data.slice(), dims)]);
    const results = await session.run(Object.fromEntries(given));
    answers.push(Object.fromEntries(Object.entries(results).map(([name, result]) => [name, new Tensor(result.type, bytesOf(result).slice(), result.dims)])));
  } // prettier-ignore
  await session.release();
  return answers;
}

async function byReference(model, sets) {
  const session = await InferenceSession.create(model, {
    backend: "reference",
    inPlace: "never",
    graphOptimizationLevel: "disabled",
  });
  const answers = [];
  for (const { feeds } of sets) answers.push(await session.run(feeds));
  await session.release();
  return answers;
}

/** Answers, or undefined where there are none. */
async function asked(model, sets, answer = byOnnxruntime) {
  try {
    return await answer(model, sets);
  } catch (error) {
    if (process.env.SHOW) console.log(error.message.slice(0, 160));
    return undefined;
  }
}

async function write({ name, sets, ...parts }) {
  const model = writeModel(buildModel(parts));
  const theirs = await asked(model, sets);
  const answers = theirs ?? (await byReference(model, sets));
  const answeredBy = theirs === undefined ? "reference" : "onnxruntime";
  mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, name, "model.onnx"), model);
  writeFileSync(join(folder, name, "meta.json"), JSON.stringify({ answeredBy, sets: sets.map(({ label }) => label) }));
  sets.forEach(({ feeds }, at) => {
    const data = join(folder, name, `test_data_set_${at}`);
    mkdirSync(data);
    parts.inputs.forEach(({ name: input }, index) =>
      writeFileSync(join(data, `input_${index}.pb`), writeTensor(initializer(input, feeds[input]))),
    );
    parts.outputs.forEach(({ name: output }, index) =>
      writeFileSync(join(data, `output_${index}.pb`), writeTensor(initializer(output, answers[at][output]))),
    );
  });
  console.log(`${name}: ${sets.length} sets by ${answeredBy}`);
}

for (const type of ["float32", "float16", "bfloat16"]) {
  const partsOf = (outputs, opset = 24) => ({
    opset: { "ai.onnx": opset, "com.microsoft": 1 },
    inputs: [value("x", type, [9])],
    outputs: outputs.map(({ output, type: of }) => value(output, of)),
    nodes: outputs.flatMap(({ output, nodes }) => nodes(output)),
    initializers: outputs.flatMap(({ output, constants }) => (typeof constants === "function" ? constants(output) : [])),
  }); // prettier-ignore
  const sets = elementSets(type);
  const [theirs, ours] = [[], []];
  for (const output of elementOutputs(type)) {
    const modelOf = (opset) => writeModel(buildModel(partsOf([output], opset)));
    if ((await asked(modelOf(24), sets)) !== undefined) theirs.push(output);
    else if ((await asked(modelOf(28), sets, byReference)) !== undefined) ours.push(output);
  }
  if (theirs.length > 0) await write({ name: `elements_${type}`, ...partsOf(theirs), sets });
  if (ours.length > 0) await write({ name: `elements_alone_${type}`, ...partsOf(ours, 28), sets });
}
for (const form of forms()) await write(form);
packArchive(folder, process.argv[2]);
