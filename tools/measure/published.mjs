// Every folder that publishers' tools wrote, below those that are named: its logits when caches are carried by hand and when they are in a state, and its text on
// linear caches and on pages, prompts whole and in parts, and two texts beside each other; against the traces that lie beside the files, or onnxruntime.
// `node tools/measure/published.mjs FOLDER… [--backends wasm,webgpu] [--only PATTERN] [--exact]` after a build. With --exact a door that is off tells how far
// the reference implementation, which rounds no activations, is from the same answers, and how far it is with activations rounded as onnxruntime's.
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { CausalLM, InferenceSession, Tensor } from "../../dist/index.node.js";
import { buildModel, initializer, node, value } from "../../dist/onnx/build.js";
import { readModel } from "../../dist/onnx/read.js";
import { writeModel } from "../../dist/onnx/write.js";
import { areAsFiled } from "../../dist/session/plain-weights.js";
import { mayRound, roundedFolder } from "./published/rounded.mjs";
import { best, emptyCaches, numbersOf, presentOf, rowOf, table, tensorOf, traceOf } from "./published/traces.mjs";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    backends: { type: "string", default: "wasm" },
    only: { type: "string", default: "" },
    exact: { type: "boolean" },
  },
});

/** Folders with a model, at any depth. */
const below = (path) => {
  const inside = readdirSync(path, { withFileTypes: true });
  if (inside.some(({ name }) => name === "model.onnx")) return [path];
  return inside.filter((each) => each.isDirectory()).flatMap(({ name }) => below(join(path, name)));
};
const folders = positionals
  .flatMap((each) => below(resolve(each)))
  .filter((each) => new RegExp(values.only).test(basename(each)));

function fileOf(folder) {
  const model = readModel(readFileSync(join(folder, "model.onnx")));
  const { graph } = model;
  const told = ({ name, type }) => ({ name, type: type.elementType, shape: type.shape });
  const calls = (opType) => graph.nodes.filter((each) => each.opType === opType);
  const attentions = calls("GroupQueryAttention");
  return {
    isPacked: !areAsFiled(model),
    inputs: graph.inputs.map(told),
    outputs: graph.outputs.map(({ name }) => name),
    vocabulary: graph.outputs.find(({ name }) => name === "logits")?.type.shape.at(-1),
    // What the head makes is told in the type of what it is made of.
    isHalf: graph.outputs.some(({ name, type }) => name === "logits" && type.elementType.endsWith("16")),
    fromFront: attentions.length > 0,
    slides: attentions.some(({ attributes }) => Number(attributes.get("sliding_window_cache")?.value ?? 0) === 1),
    // onnxruntime makes products with bytes of those with weights that are unpacked beside them, too.
    rounds:
      graph.nodes.some(mayRound) || calls("DequantizeLinear").some(({ attributes }) => attributes.has("block_size")),
  };
}

/** The answers of another provider's file of the same weights, where the file's own cannot be had. */
async function answersOf(folder, file) {
  // onnxruntime's CPU provider takes weights that lie as CUDA's kernels read them for plain ones.
  const own = file.isPacked ? { missing: "its weights are packed for CUDA" } : await traceOf(folder, file);
  if (own.one !== undefined) return own;
  const [, kind] = /^(.*?-(?:int|fp|bf)\d+)-/.exec(basename(folder)) ?? [];
  const twins =
    kind === undefined
      ? []
      : below(dirname(folder)).filter((each) => each !== folder && basename(each).startsWith(`${kind}-`));
  // The same weights in plain order first.
  const isPlain = (twin) => twin.endsWith("prepacked_0");
  for (const twin of twins.toSorted((a, b) => isPlain(b) - isPlain(a))) {
    const theirs = await traceOf(twin, fileOf(twin));
    if (theirs.one !== undefined) return { ...theirs, whose: basename(twin), isTwin: true };
  }
  return own;
}

/** What a file may be off, in parts of the largest logit: another file multiplies otherwise, float16 and bytes round elsewhere. */
const allowance = (file, answers, backend) => {
  if (answers.isTwin) return 0.2;
  return file.isHalf || file.rounds ? 0.05 : backend === "webgpu" ? 1e-2 : 2e-3;
};

/** The farthest difference over tokens that mean something. */
function distance({ steps, lengths }, got, fromFront) {
  let farthest = 0;
  for (const [at, { logits }] of steps.entries()) {
    const most = logits.numbers.reduce((all, each) => Math.max(all, Math.abs(each)), 0);
    const [batch, rows] = logits.dims;
    for (let sample = 0; sample < batch; sample++)
      for (let row = 0; row < rows; row++) {
        const isPadding = at === 0 && (fromFront ? row >= lengths[sample] : row < rows - lengths[sample]);
        if (isPadding) continue;
        const [ours, theirs] = [{ ...logits, numbers: got[at] }, logits].map((each) => rowOf(each, sample, row));
        for (const [place, each] of theirs.entries()) {
          const off = Math.abs(ours[place] - each) / most;
          if (!(off <= farthest)) farthest = Number.isNaN(off) ? Infinity : off;
        }
      }
  }
  return farthest;
}

/** A step's feeds as this file takes them. */
const fitting = (file, feeds) =>
  Object.fromEntries(
    file.inputs.flatMap(({ name, type }) => {
      const given = feeds.get(name);
      if (given === undefined) return [];
      return [[name, given.type === type ? given : tensorOf(type, given.dims, numbersOf(given))]];
    }),
  );

async function byHand(folder, file, { steps, lengths }, backend) {
  const session = await InferenceSession.create(join(folder, "model.onnx"), { backend, threads: 1 });
  let caches = emptyCaches(folder, file, lengths.length);
  const all = [];
  for (const { feeds } of steps) {
    const results = await session.run({ ...fitting(file, feeds), ...Object.fromEntries(caches) });
    all.push(numbersOf(await onHost(results.logits)));
    caches = new Map([...caches.keys()].map((name) => [name, results[presentOf(name, file.outputs)]]));
  }
  await session.release();
  return all;
}

/** How far the reference implementation is from the same answers, as it is and with rounded activations. */
async function exactly(folder, file, trace) {
  const far = async (place) =>
    distance(trace, await byHand(place, file, trace, "reference"), file.fromFront).toFixed(4);
  const place = roundedFolder(folder);
  try {
    return `, ${await far(folder)} without rounding, ${await far(place)} with onnxruntime's`;
  } finally {
    rmSync(place, { recursive: true });
  }
}

async function inState(folder, file, { steps, lengths }, backend) {
  const session = await InferenceSession.create(join(folder, "model.onnx"), { backend, threads: 1 });
  const state = session.createState({ dims: { batch: lengths.length, capacity: 48 } });
  const all = [];
  for (const { feeds } of steps) {
    const { write_indices: _, nonpad_kv_seqlen: __, ...rest } = fitting(file, feeds);
    all.push(numbersOf(await onHost((await session.run(rest, { state })).logits)));
  }
  await session.release();
  return all;
}

const onHost = async (tensor) => new Tensor(tensor.type, await tensor.getData(), tensor.dims);

const logprobs = (logits) => {
  const most = Math.max(...logits);
  const sum = Math.log(logits.reduce((all, logit) => all + Math.exp(logit - most), 0)) + most;
  return logits.map((logit) => logit - sum);
};

/** What differs in a text; nothing where each token is the likeliest, or as good as it. */
function different({ steps }, text, far) {
  for (const [at, { token, logprob }] of text.entries()) {
    const wanted = logprobs(rowOf(steps[at].logits, 0, steps[at].logits.dims[1] - 1));
    if (!(Math.abs(logprob - wanted[token]) < far))
      return `token ${at} by ${Math.abs(logprob - wanted[token]).toFixed(3)}`;
    if (wanted[best(wanted)] - wanted[token] > 2 * far) return `token ${at}`;
    // Two tokens as likely as each other: from here on the texts differ.
    if (token !== best(wanted)) return "";
  }
  return text.length === steps.length ? "" : `${text.length} tokens`;
}

/** The folder with a file that makes embeddings, where its own reads them. */
function withEmbedding(folder, file, rows) {
  const embeds = file.inputs.find(({ name }) => name === "inputs_embeds");
  if (embeds === undefined) return { place: folder, remove: () => undefined };
  const place = mkdtempSync(join(tmpdir(), "insitu-published-"));
  for (const name of readdirSync(folder))
    (name.endsWith(".json") ? copyFileSync : symlinkSync)(join(folder, name), join(place, name));
  const dims = [file.vocabulary, embeds.shape[2]];
  const model = buildModel({
    opset: { "": 21 },
    inputs: [value("input_ids", "int64", ["batch", "tokens"])],
    outputs: [value("inputs_embeds", embeds.type, ["batch", "tokens", dims[1]])],
    initializers: [initializer("rows", tensorOf(embeds.type, dims, rows ?? table(...dims)))],
    nodes: [node("Gather", ["rows", "input_ids"], ["inputs_embeds"])],
  });
  writeFileSync(join(place, "embed_tokens.onnx"), writeModel(model));
  return { place, remove: () => rmSync(place, { recursive: true }) };
}

async function texts(folder, trace, options, far) {
  const asked = { maxTokens: trace.steps.length, temperature: 0, ignoreEnd: true, logprobs: true };
  const told = {};
  const textOf = async (lm, prompt) => {
    const text = [];
    for await (const step of lm.generate(prompt, asked)) text.push(step);
    return text;
  };
  const lm = await CausalLM.load(folder, { threads: 1, ...options });
  told.whole = different(trace, await textOf(lm, trace.prompt), far);
  const short = trace.prompt.slice(4);
  const alone = await textOf(lm, short);
  const beside = [[], []];
  for await (const step of lm.generateBatch([trace.prompt, short], asked)) beside[step.sample].push(step);
  const parted = beside[1].findIndex(({ token }, at) => token !== alone[at].token);
  const isTie = parted < 0 || Math.abs(beside[1][parted].logprob - alone[parted].logprob) < far;
  told.batch = different(trace, beside[0], far) || (isTie ? "" : `the second text, token ${parted}`);
  await lm.release();
  const inParts = await CausalLM.load(folder, { threads: 1, ...options, chunk: 4, keep: 0 });
  told.parts = different(trace, await textOf(inParts, trace.prompt), far);
  await inParts.release();
  return told;
}

const [counts, off, all] = [new Map(), [], { doors: 0 }];
function count(door, name, difference) {
  all.doors++;
  const [right, tries] = counts.get(door) ?? [0, 0];
  counts.set(door, [right + (difference === "" ? 1 : 0), tries + 1]);
  if (difference !== "") off.push(`${name}: ${door}: ${difference}`);
}
const tried = (work) => work().catch((error) => error.message.slice(0, 160));

for (const folder of folders) {
  const [name, file] = [basename(folder), fileOf(folder)];
  const [doors, offs] = [all.doors, off.length];
  const answers = file.vocabulary === undefined ? { missing: "it has no logits" } : await answersOf(folder, file);
  if (answers.one === undefined) {
    count("answers", name, `none: ${answers.missing}`);
    continue;
  }
  for (const backend of values.backends.split(",")) {
    const allowed = allowance(file, answers, backend);
    const ways = { "carried by hand": byHand, "in a state": inState };
    for (const [door, run] of Object.entries(ways))
      for (const trace of [answers.one, ...(answers.two === undefined ? [] : [answers.two])]) {
        const difference = await tried(async () => {
          const far = distance(trace, await run(folder, file, trace, backend), file.fromFront);
          if (far < allowed) return "";
          return `off by ${far.toFixed(4)}${values.exact ? await exactly(folder, file, trace) : ""}`;
        });
        count(`${backend}, ${door}, ${trace === answers.one ? "one" : "two"}`, name, difference);
      }
    const { place, remove } = withEmbedding(folder, file, answers.one.table);
    for (const cache of ["linear", "paged"]) {
      const told = await tried(() => texts(place, answers.one, { backend, cache }, Math.max(2e-2, 1.5 * allowed)));
      for (const part of ["whole", "parts", "batch"]) count(`${backend}, ${cache}, ${part}`, name, told[part] ?? told);
    }
    remove();
  }
  const tries = all.doors - doors;
  console.log(`${name}: ${tries - (off.length - offs)} of ${tries} (${answers.whose})`);
}
console.log(`${folders.length} folders`);
for (const [door, [right, tries]] of counts) console.log(`  ${door.padEnd(32)}${right} of ${tries}`);
for (const each of off) console.log(`  ${each}`);
process.exit(off.length === 0 ? 0 : 1);
