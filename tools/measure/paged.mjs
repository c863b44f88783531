// How much a paged write costs beside a plain copy of the same bytes: one token for each of 64 sequences, 8 heads of 128,
// float16, keys and values, written in place by ops.scatterPaKvCache, against TypedArray.set of the same bytes in one piece and
// row by row. Interleaved repeats, medians. Run after a build: node tools/measure/paged.mjs [repeats]
import { scatterPaKvCache } from "../../dist/functions/paged.js";
import { InferenceSession } from "../../dist/entry/node.js";
import { buildModel, node, value } from "../../dist/onnx/build.js";
import { writeModel } from "../../dist/onnx/write.js";
import { Tensor } from "../../dist/tensor/tensor.js";

const [sequences, heads, size, blockSize, blocks] = [64, 8, 128, 16, 256];
const vector = heads * size;
const repeats = Number(process.argv[2] ?? 41);
const calls = 200; // a repeat times this many calls

const slots = Int32Array.from({ length: sequences }, (_, sequence) => (sequence * 61) % (blocks * blockSize));
const slotMapping = new Tensor("int32", slots, [sequences]);
const rows = (from) =>
  new Tensor(
    "float16",
    Uint16Array.from({ length: sequences * vector }, (_, i) => (from + i) & 0x7bff),
    [sequences, heads, size],
  );
const [key, value_] = [rows(1), rows(2)];

const shapes = {
  Norm: [blocks, blockSize, heads, size],
  NHSD: [blocks, heads, blockSize, size],
  PA_NZ: [blocks, vector / 16, blockSize, 16],
};
const cacheOf = (layout) => new Tensor("float16", new Uint16Array(blocks * blockSize * vector), shapes[layout]);

function paged(layout) {
  const [keyCache, valueCache] = [cacheOf(layout), cacheOf(layout)];
  const options = {
    cacheMode: layout === "PA_NZ" ? "PA_NZ" : "Norm",
    scatterMode: layout === "NHSD" ? "NHSD" : "None",
    inPlace: true,
  };
  return () => scatterPaKvCache({ key, value: value_, keyCache, valueCache, slotMapping }, options);
}

const flat = [new Uint16Array(key.size), new Uint16Array(key.size)];
function onePiece() {
  flat[0].set(key.data);
  flat[1].set(value_.data);
}
function rowByRow() {
  for (const [at, { data }] of [key, value_].entries())
    for (let row = 0; row < sequences; row++)
      flat[at].set(data.subarray(row * vector, (row + 1) * vector), row * vector);
}

/** A model that is nothing but the write, run with a state. */
async function throughSession() {
  const dims = shapes.Norm;
  const model = buildModel({
    opset: { "": 24, insitu: 1 },
    inputs: [
      value("key", "float16", [sequences, heads, size]),
      value("past_key", "float16", dims),
      value("slots", "int32", [sequences]),
      value("value", "float16", [sequences, heads, size]),
      value("past_value", "float16", dims),
    ],
    outputs: [value("present_key", "float16", dims), value("present_value", "float16", dims)],
    nodes: [
      node(
        "ScatterPaKvCache",
        ["key", "past_key", "slots", "value", "past_value"],
        ["present_key", "present_value"],
        {},
        { domain: "insitu" },
      ),
    ],
  });
  const session = await InferenceSession.create(writeModel(model), { backend: "reference", inPlace: "require" });
  const state = session.createState();
  return () => session.run({ key, value: value_, slots: slotMapping }, { state });
}

const tasks = {
  "TypedArray.set, one piece": onePiece,
  "TypedArray.set, row by row": rowByRow,
  "ops.scatterPaKvCache Norm": paged("Norm"),
  "ops.scatterPaKvCache NHSD": paged("NHSD"),
  "ops.scatterPaKvCache PA_NZ": paged("PA_NZ"),
  "session.run with a state, Norm": await throughSession(),
};
const times = Object.fromEntries(Object.keys(tasks).map((name) => [name, []]));
for (let repeat = -3; repeat < repeats; repeat++) {
  for (const [name, task] of Object.entries(tasks)) {
    const start = performance.now();
    if (name.startsWith("session")) for (let call = 0; call < calls; call++) await task();
    else for (let call = 0; call < calls; call++) void task();
    if (repeat >= 0) times[name].push(((performance.now() - start) / calls) * 1000);
  }
}
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const [piece, byRow] = Object.values(times).slice(0, 2);
const ratio = (list, base) => median(list.map((time, at) => time / base[at])).toFixed(2);
console.log(
  `${sequences} tokens, ${heads} heads of ${size}, float16, keys and values: ${4 * key.size} bytes; Node ${process.version}`,
);
for (const [name, list] of Object.entries(times)) {
  console.log(
    `${name.padEnd(32)} ${median(list).toFixed(1).padStart(7)} µs   ${ratio(list, piece)} × one piece   ${ratio(list, byRow)} × row by row`,
  );
}
