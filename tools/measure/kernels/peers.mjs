// What onnxruntime needs for the loads of matmul.mjs, matmul-blocks.mjs and attention.mjs on this machine, with 1 and 2 threads.
// A model holds several products with weights of their own, so that one run reads more than the caches hold; times are for one product.
import { createRequire } from "node:module";
import { buildModel, initializer, node, value } from "../../../dist/onnx/build.js";
import { writeModel } from "../../../dist/onnx/write.js";

const require = createRequire(new URL("../../../peers/package.json", import.meta.url));
const which = process.argv[2] ?? "onnxruntime-node";
const ort = require(which);
if (which === "onnxruntime-web") ort.env.wasm.numThreads = 2;
ort.env.logLevel = "error";
const only = process.argv[3];
const [K, N] = [4096, 4096];

const random = (array) => {
  const bytes = new Uint8Array(array.buffer);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Math.random() * 256;
  return array;
};

function products(kind, count) {
  const [nodes, initializers, outputs] = [[], [], []];
  for (let i = 0; i < count; i++) {
    outputs.push(value(`y${i}`, "float32", ["m", N]));
    if (kind === "float32") {
      initializers.push(initializer(`w${i}`, "float32", Float32Array.from({ length: K * N }, Math.random), [K, N]));
      nodes.push(node("MatMul", ["x", `w${i}`], [`y${i}`]));
    } else {
      const bits = Number(kind);
      initializers.push(
        initializer(`w${i}`, "uint8", random(new Uint8Array((K * N * bits) / 8)), [N, K / 32, (32 * bits) / 8]),
      );
      initializers.push(initializer(`s${i}`, "float32", new Float32Array((K * N) / 32).fill(0.01), [(K * N) / 32]));
      nodes.push(
        node(
          "MatMulNBits",
          ["x", `w${i}`, `s${i}`],
          [`y${i}`],
          { K, N, bits, block_size: 32, accuracy_level: 4 },
          { domain: "com.microsoft" },
        ),
      );
    }
  }
  return writeModel(
    buildModel({
      opset: { "": 21, "com.microsoft": 1 },
      nodes,
      initializers,
      inputs: [value("x", "float32", ["m", K])],
      outputs,
    }),
  );
}

for (const [kind, count] of [
  ["float32", 3],
  ["8", 8],
  ["4", 12],
]) {
  if (only && only !== kind) continue;
  const model = products(kind, count);
  for (const threads of [1, 2]) {
    if (which === "onnxruntime-web" && threads === 1) continue;
    const session = await ort.InferenceSession.create(model, {
      executionProviders: [which === "onnxruntime-web" ? "wasm" : "cpu"],
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    });
    for (const M of [1, 128]) {
      const x = new ort.Tensor(
        "float32",
        Float32Array.from({ length: M * K }, () => Math.random() - 0.5),
        [M, K],
      );
      const fetches = Object.fromEntries(
        Array.from({ length: count }, (_, i) => [`y${i}`, new ort.Tensor("float32", new Float32Array(M * N), [M, N])]),
      );
      const times = [];
      for (let round = 0; round < (M > 1 ? 8 : 24); round++) {
        const start = performance.now();
        await session.run({ x }, fetches);
        times.push((performance.now() - start) / count);
      }
      times.splice(0, 2);
      times.sort((a, b) => a - b);
      console.log(
        which,
        threads,
        kind,
        `M=${M}`,
        times[times.length >> 1].toFixed(3),
        "ms, least",
        times[0].toFixed(3),
      );
    }
    await session.release();
  }
}
