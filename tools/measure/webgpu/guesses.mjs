// Guesses of a draft on WebGPU whose share of right ones is known: a model in Qwen3-4B's shape and a draft in Qwen3-0.6B's, weights of 4 bits, in which the next
// token is a function of the last one alone, while all layers compute what they always do. The draft's function is another one for a chosen share of the tokens.
// Tokens a second with each draft beside those without, greedy, in turns; every token is compared with the function.
//   node tools/measure/webgpu/guesses.mjs [--small] [--rounds 3] [--tokens 256] [--texts 1,8] [--shares 0,0.2,0.4,1] [--seconds 100] [--fixed 4] [--trips] [--times]
// --trips counts how often the host waits for the device a token, and tells nothing of time: on any device. --times tells when the host submitted, and from when to
// when it waited for the device, in the last rounds with guesses: what lies between a wait and the next submission is the host's work. Each number of texts has an
// equal share of the seconds that are left once all is loaded; what had no turn is told.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CausalLM } from "../../../dist/index.node.js";
import { readNumbers } from "../../../dist/tensor/access.js";
import { encodeFloat16 } from "../../../dist/tensor/float.js";
import { tensorView } from "../../../dist/onnx/model.js";
import { writeModelFolder } from "../../../dist/tools/bench/device/model-files.js";
import { publishedDecoder, smallPublishedSizes } from "../../../dist/tools/demo/published-decoder.js";
import { qwen3, qwen3Large } from "../../../dist/tools/demo/published-shapes.js";
import { globals } from "webgpu";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : process.argv.splice(at, 2)[1];
};
const isSmall = process.argv.includes("--small");
const rounds = Number(option("--rounds", isSmall ? 1 : 3));
const count = Number(option("--tokens", isSmall ? 24 : 256));
const counts = option("--texts", "1,8").split(",").map(Number);
const shares = option("--shares", "0,0.2,0.4,1").split(",").map(Number);
const seconds = Number(option("--seconds", 100));
const onlyTrips = process.argv.includes("--trips");
const tellsTimes = process.argv.includes("--times");
// Guesses of one length whether they pay or not.
const fixed = Number(option("--fixed", 0));
const began = performance.now();
const spent = () => (performance.now() - began) / 1000;

const small = { ...smallPublishedSizes, vocabulary: 512, positions: 512 };
const [large, little] = isSmall ? [{ ...small, layers: 3, hidden: 96 }, small] : [qwen3Large.sizes, qwen3.sizes];
const { vocabulary } = large;
const type = isSmall ? "float32" : "float16";

/** What comes behind a token. */
const step = Math.floor(vocabulary * 0.382) | 1;
const nextOf = (token) => (token + step) % vocabulary;
/** True if a draft with this share of wrong guesses guesses wrongly behind a token. */
const isWrong = (token, share) => (Math.imul(token + 1, 0x9e3779b1) >>> 0) / 2 ** 32 < share;

/** A decoder whose layers add next to nothing, and whose embedding of a token is the head's row of what `next` says. */
function decoder(sizes, next) {
  const form = { type, weights: { bits: 4, blockSize: 32, accuracyLevel: 4 }, embeddings: "separate", logits: "all" };
  const model = publishedDecoder(sizes, form);
  const { initializers } = model.graph;
  const find = (name) => initializers.find((each) => each.name === name);
  const put = (tensor, of) => {
    const data = tensor.data;
    for (let at = 0; at < data.length; at++) data[at] = type === "float32" ? of(at, data) : encodeFloat16(of(at, data));
  };
  for (const each of initializers) {
    if (!/(o_proj|down_proj).*_scales$/.test(each.name)) continue;
    const [first] = readNumbers(tensorView(each));
    put(each, () => first / 256);
  }
  const [levels, scales] = [find("lm_head.MatMul.weight_Q4").data, find("lm_head.MatMul.weight_scales")];
  put(scales, () => 0.25);
  const values = Array.from({ length: 16 }, (_, level) => (level - 8) * 0.25);
  const words = type === "float32" ? values : values.map(encodeFloat16);
  const rows = find("model.embed_tokens.weight").data;
  const { hidden } = sizes;
  for (let token = 0; token < vocabulary; token++) {
    const [from, to] = [(next(token) * hidden) / 2, token * hidden];
    for (let at = 0; at < hidden / 2; at++) {
      const byte = levels[from + at];
      rows[to + 2 * at] = words[byte & 15];
      rows[to + 2 * at + 1] = words[byte >> 4];
    }
  }
  return model;
}

const root = mkdtempSync(join(tmpdir(), "insitu-guesses-"));
process.once("exit", () => rmSync(root, { recursive: true, force: true }));
const context = isSmall ? 256 : 2048;
/** The model, loaded with each of some layouts of caches. */
const load = async (name, sizes, next, caches) => {
  const folder = join(root, name);
  mkdirSync(folder);
  writeModelFolder(folder, decoder(sizes, next), sizes, "qwen3");
  const made = spent();
  const loaded = [];
  for (const cache of caches)
    loaded.push(
      await CausalLM.load(folder, {
        backend: "webgpu",
        context,
        inPlace: "require",
        cache,
        ...(cache === "paged" ? { blockSize: 16, blocks: context } : {}),
      }),
    );
  rmSync(folder, { recursive: true, force: true });
  console.log(`${name}: made after ${made.toFixed(1)} s, loaded after ${spent().toFixed(1)} s`);
  return loaded;
};

/** How often the host waits: buffers that are mapped. */
let trips = 0;
/** What was submitted last, and what was waited for: milliseconds. */
let events = [];
const { mapAsync } = globals.GPUBuffer.prototype;
globals.GPUBuffer.prototype.mapAsync = function (...given) {
  trips++;
  const event = { name: "wait", from: performance.now() };
  events.push(event);
  const mapped = mapAsync.apply(this, given);
  const over = () => void (event.to = performance.now());
  mapped.then(over, over);
  return mapped;
};
const { submit } = globals.GPUQueue.prototype;
globals.GPUQueue.prototype.submit = function (...given) {
  submit.apply(this, given);
  events = [...events.slice(-31), { name: "submitted", from: performance.now() }];
};
/** The last rounds, by when each thing happened. */
function lastRounds() {
  const last = events.slice(-16);
  const at = (time) => (time - last[0].from).toFixed(2);
  return last.map(({ name, from, to }) => `${name} ${at(from)}${to === undefined ? "" : ` to ${at(to)}`}`).join(", ");
}

// What guesses for several texts reads them in one run: its caches are pages.
const draftCaches = [...(counts.includes(1) ? ["linear"] : []), ...(counts.some((many) => many > 1) ? ["paged"] : [])];
const [lm] = await load("target", large, nextOf, ["linear"]);
const drafts = new Map();
for (const share of shares)
  drafts.set(
    share,
    await load(`draft ${share}`, little, (token) => nextOf(isWrong(token, share) ? token + 1 : token), draftCaches),
  );

const promptOf = (text) =>
  Array.from({ length: isSmall ? 8 : 64 }, (_, at) => (text * 7919 + at * 104_729 + 11) % vocabulary);
let texts = 0;

/** Makes texts; tokens a second, and what was guessed. */
async function run(many, way, length) {
  // A way is a share, or "share:tokens" for guesses of one length whether they pay or not.
  const [share, tokens = fixed] = way === undefined ? [] : `${way}`.split(":").map(Number);
  const prompts = Array.from({ length: many }, () => promptOf(texts++));
  const speculate =
    share === undefined
      ? undefined
      : { draft: drafts.get(share).at(many === 1 ? 0 : -1), ...(tokens > 0 ? { tokens, adaptive: false } : {}) };
  const options = { temperature: 0, ignoreEnd: true, maxTokens: length, speculate };
  const made = prompts.map((prompt) => [prompt.at(-1)]);
  let [first, start, all, tripsBefore] = [0, 0, 0, 0];
  const take = (sample, token) => {
    const own = made[sample];
    if (token !== nextOf(own.at(-1)))
      throw new Error(`token ${own.length} of ${many} texts is ${token} with share ${share}`);
    own.push(token);
    // From the token on with which all have begun.
    if (++all === many) [first, start, tripsBefore] = [all, performance.now(), trips];
  };
  let summary = {};
  if (many === 1) {
    const generation = lm.generate(prompts[0], options);
    for await (const { token } of generation) take(0, token);
    summary = generation.summary;
  } else for await (const { sample, token } of lm.generateBatch(prompts, options)) take(sample, token);
  if (all !== many * length) throw new Error(`${all} tokens instead of ${many * length}`);
  const rate = (1000 * (all - first)) / (performance.now() - start);
  return { rate, trips: (trips - tripsBefore) / ((all - first) / many), ...summary };
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const loaded = spent();
for (const [at, many] of counts.entries()) {
  const until = loaded + ((seconds - loaded) * (at + 1)) / counts.length;
  const ways = [undefined, ...shares, ...(fixed === 0 ? [1, 2, 4].map((tokens) => `${shares[0]}:${tokens}`) : [])];
  const told = new Map(ways.map((way) => [way, []]));
  const last = new Map();
  for (const way of ways) if (spent() < until) await run(many, way, Math.min(count, 64));
  for (let round = 0; round < rounds; round++)
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
      if (spent() >= until) continue;
      told.get(way).push(await run(many, way, count));
      last.set(way, lastRounds());
    }
  const plain = told.get(undefined);
  for (const [way, list] of told) {
    const rate = median(list.map((each) => each.rate)) ?? NaN;
    const beside = list.slice(0, plain.length);
    const ratio = median(beside.map((each, at) => each.rate / plain[at].rate)) ?? NaN;
    const { guessedTokens: guessed = 0, rightGuesses: right = 0 } = list.at(-1) ?? {};
    const waits = `${(list.at(-1)?.trips ?? 0).toFixed(2)} waits a token`;
    const name =
      way === undefined
        ? "without guesses"
        : `${`${way}`.split(":")[0] * 100} % wrong${`${way}`.includes(":") ? `, always ${`${way}`.split(":")[1]}` : ""}`;
    if (list.length === 0) {
      console.log(`${many} texts, ${name.padEnd(22)} had no turn: ask for more --seconds`);
      continue;
    }
    const speed = onlyTrips ? "" : `${rate.toFixed(1).padStart(8)} tokens/s, ${ratio.toFixed(2)} ×, `;
    console.log(
      `${many} texts, ${name.padEnd(22)} ${speed}${waits}${guessed > 0 ? `, ${right} of ${guessed} guesses right` : ""}`,
    );
    if (tellsTimes) console.log(`  ${last.get(way)}`);
  }
}
console.log(`ended after ${spent().toFixed(0)} s`);
for (const list of drafts.values()) for (const draft of list) await draft.release();
await lm.release();
process.exit(0);
