// Measures the numbers of src/webgpu-kernels/tuning.ts that matter most on this machine's GPU, each by itself, and prints the row for its adapter. A number is
// changed where the best of its candidates is faster than the usual one by more than the noise of its rounds.
// Usage: node tools/measure/webgpu/tune.mjs [--small]     --small: sizes that a program in place of a GPU gets through, to see that it works
import { InferenceSession, Tensor } from "../../../dist/index.node.js";
import { buildModel, initializer, node, value } from "../../../dist/onnx/build.js";
import { writeModel } from "../../../dist/onnx/write.js";
import { nodePlatform } from "../../../dist/platform/node.js";
import { usualTuning } from "../../../dist/webgpu-kernels/tuning.js";

const small = process.argv.includes("--small");
const [rounds, links] = small ? [3, 2] : [15, 24];
const scaled = (size) => (small ? Math.max(64, size / 16) : size);

const halves = (shape) => new Tensor("float16", new Uint16Array(shape.reduce((a, b) => a * b, 1)).fill(0x1555), shape);

/** A chain of products of m rows, out to n columns and back: each waits for the one before. */
function products(m, k, n) {
  const [initializers, nodes] = [[], []];
  let last = "x";
  for (let at = 0; at < links; at++)
    for (const [side, shape] of Object.entries({ out: [k, n], back: [n, k] })) {
      initializers.push(initializer(`${side}${at}`, halves(shape)));
      nodes.push(node("MatMul", [last, `${side}${at}`], [(last = `${side}_${at}`)]));
    }
  const [inputs, outputs] = [[value("x", "float16", [m, k])], [value(last, "float16", [m, k])]];
  return { model: { inputs, outputs, initializers, nodes }, feeds: { x: halves([m, k]) } };
}

/** Attentions of one query each over many keys, one after the other. */
function attentions(batch, heads, keys, size) {
  const nodes = Array.from({ length: links }, (_, at) =>
    node("Attention", [at === 0 ? "q" : `y${at - 1}`, "k", "v"], [`y${at}`]),
  );
  const shape = { q: [batch, heads, 1, size], k: [batch, heads, keys, size], v: [batch, heads, keys, size] };
  const inputs = Object.entries(shape).map(([name, dims]) => value(name, "float16", dims));
  const outputs = [value(`y${links - 1}`, "float16", shape.q)];
  const feeds = Object.fromEntries(Object.entries(shape).map(([name, dims]) => [name, halves(dims)]));
  return { model: { inputs, outputs, initializers: [], nodes }, feeds };
}

/** What is measured for which number, and with which candidates. */
const trials = [
  {
    group: "oneRow",
    name: "enoughWorkgroups",
    of: [512, 1024, 2048, 4096],
    work: () => products(1, scaled(1024), scaled(32_768)),
  },
  { group: "oneRow", name: "mostLoads", of: [8, 16, 24, 32], work: () => products(1, scaled(3072), scaled(4096)) },
  { group: "oneRow", name: "mostAlone", of: [64, 128, 256], work: () => products(1, scaled(3072), scaled(1024)) },
  {
    group: "manyRows",
    name: "enoughSlices",
    of: [32, 64, 96, 192],
    work: () => products(32, scaled(2048), scaled(2048)),
  },
  {
    group: "manyRows",
    name: "enoughTiles",
    of: [32, 64, 96, 192],
    work: () => products(scaled(512), scaled(1024), scaled(2048)),
  },
  {
    group: "decode",
    name: "enoughWorkgroups",
    of: [256, 512, 1024, 2048],
    work: () => attentions(small ? 2 : 32, 8, scaled(4096), 64),
  },
];

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

/** Milliseconds of a run: its median, and how far the middle half of its rounds lies apart. */
async function timeOf({ model, feeds }) {
  const bytes = writeModel(buildModel({ opset: 23, ...model }));
  const session = await InferenceSession.create(bytes, { backend: "webgpu", fallback: "never" });
  const taken = [];
  for (let round = -2; round < rounds; round++) {
    const start = performance.now();
    await session.run(feeds);
    if (round >= 0) taken.push(performance.now() - start);
  }
  await session.release();
  const sorted = taken.toSorted((a, b) => a - b);
  return { time: median(taken), noise: sorted[(3 * rounds) >> 2] - sorted[rounds >> 2] };
}

const row = structuredClone(usualTuning);
for (const { group, name, of, work } of trials) {
  const usual = usualTuning[group][name];
  const given = work();
  const found = [];
  for (const candidate of of) {
    usualTuning[group][name] = candidate;
    found.push({ candidate, ...(await timeOf(given)) });
  }
  usualTuning[group][name] = usual;
  const [now, best] = [
    found.find(({ candidate }) => candidate === usual),
    found.toSorted((a, b) => a.time - b.time)[0],
  ];
  if (now.time - best.time > Math.max(now.noise, best.noise)) row[group][name] = best.candidate;
  const told = found.map(({ candidate, time, noise }) => `${candidate}: ${time.toFixed(2)} ± ${noise.toFixed(2)} ms`);
  console.error(`${group}.${name}  ${told.join("   ")}   → ${row[group][name]}`);
}
const { vendor, architecture } = (await (await nodePlatform.gpu()).requestAdapter()).info;
const changed = Object.fromEntries(
  Object.entries(row).filter(([group]) => JSON.stringify(row[group]) !== JSON.stringify(usualTuning[group])),
);
console.log(`  "${`${vendor} ${architecture}`.toLowerCase()}": { ...usualTuning, ...${JSON.stringify(changed)} },`);
process.exit(0);
