// Random cases of operators that clients of onnxruntime meet, answered by onnxruntime-node (peers/), in ONNX's backend-test layout.
// `node test/conformance/generate/clients.mjs OUT.tar.br [decoder-operators.mjs]`, after a build. What onnxruntime refuses is left out and counted. Everything
// follows from the seed.
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packArchive } from "../../../scripts/archive.mjs";
import { seededRandom } from "../../../dist/graph/call.js";
import { buildModel, initializer, node, value } from "../../../dist/onnx/build.js";
import { writeModel, writeTensor } from "../../../dist/onnx/write.js";
import { Tensor } from "../../../dist/tensor/tensor.js";

const ort = createRequire(new URL("../../../peers/", import.meta.url))("onnxruntime-node");
const random = seededRandom(20_261_116);
const { operators } = await import(new URL(process.argv[3] ?? "client-operators.mjs", import.meta.url).href);

/** What a case is drawn from. */
const draw = {
  random,
  Tensor,
  /** A whole number from `least` to `most`. */
  whole: (least, most) => least + Math.floor(random() * (most - least + 1)),
  pick: (...choices) => choices[Math.floor(random() * choices.length)],
  chance: (probability) => random() < probability,
  /** A tensor of numbers between −2 and 2; the whole ones among them for integers. */
  tensor(type, dims) {
    const size = dims.reduce((product, dim) => product * dim, 1);
    const numbers = Array.from({ length: size }, () => random() * 4 - 2);
    const arrays = {
      float32: Float32Array,
      float64: Float64Array,
      int32: Int32Array,
      uint8: Uint8Array,
      int8: Int8Array,
    };
    return new Tensor(
      type,
      arrays[type].from(numbers, (each) => (type.startsWith("float") ? each : Math.abs(each * 50))),
      dims,
    );
  },
  integers: (values, dims = [values.length], type = "int64") =>
    type === "int64"
      ? new Tensor(type, BigInt64Array.from(values, BigInt), dims)
      : new Tensor(type, Int32Array.from(values), dims),
  floats: (values, dims = [values.length]) => new Tensor("float32", Float32Array.from(values), dims),
};

const folder = mkdtempSync(join(tmpdir(), "clients-"));
for (const [operator, { count, domain = "", make, atol = 1e-5 }] of Object.entries(operators)) {
  let refused = 0;
  for (let at = 0, tries = 0; at < count && tries < 4 * count; tries++) {
    const { opset, attrs, inputs, constants, outputs } = make(draw);
    const names = inputs.map((tensor, index) => (tensor === undefined ? "" : `in${index}`));
    const isFed = (index) => inputs[index] !== undefined && !constants.includes(index);
    const fed = inputs.flatMap((tensor, index) => (isFed(index) ? [[names[index], tensor]] : []));
    const outputNames = outputs.map((type, index) => (type === undefined ? "" : `out${index}`));
    const asked = outputs.flatMap((type, index) => (type === undefined ? [] : [[outputNames[index], type]]));
    const model = writeModel(
      buildModel({
        opset: { "ai.onnx": domain === "" ? opset : 21, ...(domain === "" ? {} : { [domain]: 1 }) },
        inputs: fed.map(([name, { type, dims }]) => value(name, type, dims)),
        outputs: asked.map(([name, type]) => value(name, type)),
        initializers: constants.flatMap((index) =>
          inputs[index] === undefined ? [] : [initializer(names[index], inputs[index])],
        ),
        nodes: [node(operator, names, outputNames, attrs, { domain })],
      }),
    );
    let results;
    try {
      const session = await ort.InferenceSession.create(model, {
        logSeverityLevel: 4,
        graphOptimizationLevel: "disabled",
        intraOpNumThreads: 1,
      });
      results = await session.run(
        Object.fromEntries(fed.map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data, dims)])),
      );
      await session.release();
    } catch (error) {
      refused++;
      if (process.env.SHOW) console.log(operator, JSON.stringify(attrs), error.message.slice(0, 200));
      continue;
    }
    const name = `test_${operator.toLowerCase()}_random_${String(at++).padStart(3, "0")}`;
    const data = join(folder, name, "test_data_set_0");
    mkdirSync(data, { recursive: true });
    writeFileSync(join(folder, name, "model.onnx"), model);
    writeFileSync(join(folder, name, "meta.json"), JSON.stringify({ rtol: 1e-4, atol }));
    fed.forEach(([fedName, tensor], index) =>
      writeFileSync(join(data, `input_${index}.pb`), writeTensor(initializer(fedName, tensor))),
    );
    asked.forEach(([outputName], index) => {
      const { type, data: values, dims } = results[outputName];
      writeFileSync(
        join(data, `output_${index}.pb`),
        writeTensor(initializer(outputName, new Tensor(type, values, dims))),
      );
    });
  }
  console.log(`${operator}: ${refused} refused by onnxruntime`);
}
packArchive(folder, process.argv[2]);
