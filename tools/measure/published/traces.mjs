// What a published file answers: a trace that lies beside it (trace-1.json: one prompt and 11 greedy tokens; trace-2.json: two prompts, padded in front), or
// onnxruntime's own answers, made here with the same steps.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { readNumbers, writeNumbers } from "../../../dist/tensor/access.js";
import { Tensor } from "../../../dist/tensor/tensor.js";
import { View } from "../../../dist/tensor/view.js";

const steps = 12;
const peers = new URL("../../../peers/", import.meta.url);
const onnxruntime = existsSync(new URL("node_modules/onnxruntime-node", peers))
  ? createRequire(peers)("onnxruntime-node")
  : undefined;

export const tensorOf = (type, dims, numbers) => {
  const view = View.allocate(type, dims);
  writeNumbers(view, numbers);
  return Tensor.fromView(view);
};
const zeros = (type, dims) => Tensor.fromView(View.allocate(type, dims));
export const numbersOf = (tensor) => Float32Array.from(readNumbers(tensor.toView()), Number);

const sizeOf = (folder) => {
  const path = join(folder, "genai_config.json");
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")).model.decoder.head_size : undefined;
};

/** The output that goes on in an input, by name; undefined for what is no cache. */
export const presentOf = (name, outputs) =>
  [name.replace("past_key_values", "present"), name.replace("past", "present"), `updated_${name}`, `${name}_out`].find(
    (each) => each !== name && outputs.includes(each),
  );

/** Caches of no rows; with rows where the file keeps its last ones only, or all of them in a place of their own. */
export function emptyCaches(folder, { inputs, outputs, slides }, batch) {
  const isStatic = inputs.some(({ name }) => name === "write_indices");
  const rows = (symbol) => (isStatic || slides || /sliding/.test(symbol) ? 48 : 0);
  const size = (dim) =>
    typeof dim === "number" ? dim : /batch/.test(dim) ? batch : dim === "kv_cache_dim" ? sizeOf(folder) : rows(dim);
  const pasts = inputs.filter(({ name }) => presentOf(name, outputs) !== undefined);
  return new Map(pasts.map(({ name, type, shape }) => [name, zeros(type, shape.map(size))]));
}

/** Rows of an embedding that stands for the one that a file leaves to others. */
export function table(vocabulary, size) {
  let seed = 9;
  const next = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 31 - 1;
  return Float32Array.from({ length: vocabulary * size }, next);
}

/** What a step feeds besides caches. */
function feedsOf(inputs, caches, { ids, mask, read, vocabulary }) {
  const [batch, length] = [ids.length, ids[0].length];
  const positions = mask.flatMap((row) =>
    row.map((_, at) => Math.max(0, sum(row.slice(0, at + 1)) - 1)).slice(-length),
  );
  const feeds = {
    input_ids: () => [[batch, length], ids.flat()],
    attention_mask: () => [[batch, mask[0].length], mask.flat()],
    position_ids: (shape) =>
      shape.length === 3
        ? [
            [3, batch, length],
            [...positions, ...positions, ...positions],
          ]
        : [[batch, length], positions],
    inputs_embeds: ([, , size]) => {
      const rows = table(vocabulary, size);
      return [[batch, length, size], ids.flat().flatMap((id) => [...rows.subarray(id * size, (id + 1) * size)])];
    },
    write_indices: () => [[batch], ids.map(() => read)],
    nonpad_kv_seqlen: () => [[batch], ids.map(() => read + length)],
  };
  const fed = inputs.filter(({ name }) => !caches.has(name));
  return new Map(fed.map(({ name, type, shape }) => [name, tensorOf(type, ...feeds[name](shape))]));
}

const sum = (numbers) => numbers.reduce((all, each) => all + each, 0);

/** A prompt of 9 tokens and one of 5, away from the ends of the vocabulary. */
const promptsOf = (vocabulary) =>
  [9, 5].map((count) => Array.from({ length: count }, (_, at) => 3 + ((at * 37 + count * 11) % (vocabulary - 20))));

/** onnxruntime's answers. Throws where its processor provider does not run the file. */
async function answered(folder, { inputs, outputs, vocabulary, slides }, count) {
  const session = await onnxruntime.InferenceSession.create(join(folder, "model.onnx"), {
    logSeverityLevel: 4,
    intraOpNumThreads: 1,
  });
  const handOver = ({ type, data, dims }) => new onnxruntime.Tensor(type, data, dims);
  let prompts = promptsOf(vocabulary).slice(0, count);
  if (inputs.some(({ name }) => name === "write_indices")) prompts = prompts.map(() => prompts[0]);
  const lengths = prompts.map((each) => each.length);
  const padding = lengths.map((length) => Array(lengths[0] - length).fill(0));
  let ids = prompts.map((each, at) => [...padding[at], ...each]);
  let mask = lengths.map((length, at) => [...padding[at], ...Array(length).fill(1)]);
  let caches = new Map(
    [...emptyCaches(folder, { inputs, outputs, slides }, count)].map(([name, each]) => [name, handOver(each)]),
  );
  const all = [];
  for (let read = 0; all.length < steps; read += ids[0].length, ids = all.at(-1).next) {
    const feeds = feedsOf(inputs, caches, { ids, mask, read, vocabulary });
    const results = await session.run(
      Object.fromEntries([...[...feeds].map(([name, each]) => [name, handOver(each)]), ...caches]),
    );
    const { type, data, dims } = results.logits;
    const logits = { dims: [...dims], numbers: numbersOf(new Tensor(type, data, dims)) };
    const next = lengths.map((_, sample) => [best(rowOf(logits, sample, dims[1] - 1))]);
    all.push({ feeds, logits, next });
    caches = new Map([...caches.keys()].map((name) => [name, results[presentOf(name, outputs)]]));
    mask = mask.map((row) => [...row, 1]);
  }
  await session.release();
  return { steps: all, lengths, prompt: prompts[0] };
}

/** The logits of one token. */
export const rowOf = ({ dims: [, rows, size], numbers }, sample, row) =>
  numbers.subarray((sample * rows + row) * size, (sample * rows + row + 1) * size);
export const best = (row) => row.indexOf(Math.max(...row));

function readTrace(path) {
  const told = JSON.parse(readFileSync(path, "utf8"));
  const all = [];
  for (let at = 0; told[`${at}.out.logits`] !== undefined; at++) {
    const fed = Object.entries(told).filter(([name]) => name.startsWith(`${at}.in.`));
    const feeds = new Map(
      fed.map(([name, { type, dtype, dims, data }]) => [
        name.replace(`${at}.in.`, ""),
        tensorOf(type ?? dtype, dims, data),
      ]),
    );
    const { dims, data } = told[`${at}.out.logits`];
    all.push({ feeds, logits: { dims, numbers: Float32Array.from(data) } });
  }
  const isPadded = all[0].feeds.has("attention_mask");
  const lengths = [9, isPadded ? 5 : 9].slice(0, all[0].logits.dims[0]);
  const ids = all[0].feeds.get("input_ids");
  if (ids !== undefined) return { steps: all, lengths, prompt: [...numbersOf(ids)].slice(0, 9) };
  return { steps: all, lengths, ...(all[0].logits.dims[0] === 1 ? tokensOf(all) : {}) };
}

/** The prompt of a trace that feeds embeddings, and a table that they come from: a row is that of the token drawn before it, or of one that nobody draws. */
function tokensOf(all) {
  const embeds = all.map(({ feeds }) => feeds.get("inputs_embeds"));
  const size = embeds[0].dims[2];
  const rows = embeds.map((each) => {
    const numbers = numbersOf(each);
    return Array.from({ length: each.dims[1] }, (_, at) => numbers.subarray(at * size, (at + 1) * size));
  });
  const [vocabulary] = all[0].logits.dims.slice(-1);
  const known = new Map();
  for (let at = 1; at < all.length; at++) {
    const { dims } = all[at - 1].logits;
    known.set(rows[at][0].join(), best(rowOf(all[at - 1].logits, 0, dims[1] - 1)));
  }
  const free = Array.from({ length: vocabulary }, (_, token) => token).filter(
    (token) => ![...known.values()].includes(token),
  );
  for (const row of rows[0]) if (!known.has(row.join())) known.set(row.join(), free.pop());
  const filled = new Float32Array(vocabulary * size);
  for (const [row, token] of known) filled.set(row.split(",").map(Number), token * size);
  return { prompt: rows[0].map((row) => known.get(row.join())), table: filled };
}

/** What a file answers to one prompt and to two, and whose answer it is; or why there is none. */
export async function traceOf(folder, file) {
  const [one, two] = [1, 2].map((count) => join(folder, `trace-${count}.json`));
  if (existsSync(one))
    return { one: readTrace(one), two: existsSync(two) ? readTrace(two) : undefined, whose: "trace" };
  if (onnxruntime === undefined) return { missing: "onnxruntime-node is not installed" };
  try {
    const single = await answered(folder, file, 1);
    return { one: single, two: await answered(folder, file, 2).catch(() => undefined), whose: "onnxruntime" };
  } catch (error) {
    return { missing: error.message.split("\n")[0].slice(0, 120) };
  }
}
