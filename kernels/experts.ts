/**
 * Experts (MoE, QMoE): routes are a token's ways to its experts. They are brought in the order of the experts, and each expert that has some
 * multiplies them all by its own weights: those of the others are not read.
 */
import { exp, sigmoid, tanh } from "./exponential";
import { readOne, readRow, widthOf, writeRow } from "./float-types";
import { MatMul, matmul, packRows } from "./matmul";
import { MatMulBlocks, matmulBlocks } from "./matmul-blocks";
import { QuantizeRows, quantizeRows } from "./quantize-rows";
import { shareStart } from "./share";
import { fma, zero } from "./simd";

/** Which experts each token goes to. */
@unmanaged
export class RouteExperts {
  scores: usize; // [tokens, experts]
  given: usize; // [tokens, experts], optional: weights in place of those that scores and mixer give
  type: i32; // elementCode of both
  tokens: i32;
  experts: i32;
  k: i32; // experts of a token
  normalize: i32; // 1: a token's weights are one in all
  mixer: i32; // 1: each weight is that among the scores near it; k is 2
  starts: usize; // int32[experts + 1]: where each expert's routes begin
  packed: usize; // int32[experts + 1]: the same where each expert has fours of them
  tokenOf: usize; // int32[tokens · k]: the token of each route
  chosen: usize; // int32[tokens, k]: its experts, best first
  places: usize; // int32[tokens, k]: its routes
  weights: usize; // float32[tokens, k]
}

/** How far below the best score, as a share of the larger of both, one still counts for the mixer. */
const NEAR: f32 = 0.02;

/** All tokens; one part. */
export function routeExperts(job: RouteExperts, part: i32, parts: i32, scratch: usize): void {
  const experts = job.experts, k = job.k;
  const width = <usize>widthOf(job.type);
  const bytes = (<usize>experts) << 2;
  const marks = scratch + bytes;
  memory.fill(job.starts, 0, bytes + 4);
  for (let token = 0; token < job.tokens; token++) {
    const row = <usize>(token * experts);
    readRow(job.scores + row * width, job.type, scratch, experts);
    memory.fill(marks, 0, bytes);
    const chosen = job.chosen + ((<usize>(token * k)) << 2);
    for (let i = 0; i < k; i++) {
      let best = -1;
      let most: f32 = -Infinity;
      for (let expert = 0; expert < experts; expert++) {
        if (load<i32>(marks + (expert << 2))) continue;
        const score = load<f32>(scratch + (expert << 2));
        // Of equal scores the last; what is not a number is the lowest.
        if (best >= 0 && !(score >= most) && (score == score || most != -Infinity)) continue;
        best = expert;
        most = score == score ? score : -Infinity;
      }
      store<i32>(marks + (best << 2), 1);
      store<i32>(chosen + (i << 2), best);
      const start = job.starts + ((<usize>(best + 1)) << 2);
      store<i32>(start, load<i32>(start) + 1);
    }
    const weights = job.weights + ((<usize>(token * k)) << 2);
    weigh(job, scratch, job.given ? job.given + row * width : 0, chosen, weights);
  }
  let packed = 0;
  for (let expert = 0; expert < experts; expert++) {
    const at = (<usize>expert) << 2;
    const count = load<i32>(job.starts + at, 4);
    store<i32>(job.packed + at, packed);
    packed += (count + 3) & ~3;
    store<i32>(scratch + at, load<i32>(job.starts + at)); // the next free place
    store<i32>(job.starts + at, load<i32>(job.starts + at) + count, 4);
  }
  store<i32>(job.packed + bytes, packed);
  for (let route: usize = 0; route < <usize>(job.tokens * k); route++) {
    const free = scratch + ((<usize>load<i32>(job.chosen + (route << 2))) << 2);
    const place = load<i32>(free);
    store<i32>(free, place + 1);
    store<i32>(job.places + (route << 2), place);
    store<i32>(job.tokenOf + ((<usize>place) << 2), <i32>(route / k));
  }
}

/** A token's scores, and marks of those that are chosen. */
export function routeExpertsScratch(job: RouteExperts): usize {
  return (<usize>job.experts) << 3;
}

/** The weights of one token's experts. */
function weigh(job: RouteExperts, scores: usize, given: usize, chosen: usize, weights: usize): void {
  const k = job.k;
  const most = load<f32>(scores + ((<usize>load<i32>(chosen)) << 2));
  let total: f32 = 0;
  for (let i = 0; i < k; i++) {
    const expert = <usize>load<i32>(chosen + (i << 2));
    const score = load<f32>(scores + (expert << 2));
    let weight: f32 = job.mixer ? mixed(job, scores, score, i == 0 ? -1 : load<i32>(chosen)) : power(score - most);
    if (given) weight = readOne(given + expert * widthOf(job.type), job.type);
    store<f32>(weights + (i << 2), weight);
    total += weight;
  }
  if (given ? !job.normalize : job.mixer) return;
  if (!job.normalize) {
    total = 0;
    for (let expert = 0; expert < job.experts; expert++) total += power(load<f32>(scores + (expert << 2)) - most);
  }
  for (let i = 0; i < k; i++) store<f32>(weights + (i << 2), given && total == 0 ? 0 : load<f32>(weights + (i << 2)) / total);
}

/** The share of the best score among those near it, but for one that is taken. */
function mixed(job: RouteExperts, scores: usize, best: f32, taken: i32): f32 {
  let total: f32 = 0;
  for (let expert = 0; expert < job.experts; expert++) {
    const score = load<f32>(scores + (expert << 2));
    if (expert != taken && best - score <= NEAR * max<f32>(abs<f32>(score), best)) total += power(score - best);
  }
  return total == 0 ? 0 : 1 / total;
}

// @ts-ignore: decorator
@inline
function power(x: f32): f32 {
  return f32x4.extract_lane(exp(f32x4.splat(x)), 0);
}

/** Rows of tokens in the order of the routes. */
@unmanaged
export class ExpertRows {
  source: usize; // [tokens, size]
  target: usize; // float32[routes, size]
  tokenOf: usize; // int32[routes]
  type: i32; // elementCode of the source
  routes: i32;
  size: i32;
}

/** Parts share the routes. */
export function expertRows(job: ExpertRows, part: i32, parts: i32, scratch: usize): void {
  const end = shareStart(job.routes, part + 1, parts);
  for (let route = shareStart(job.routes, part, parts); route < end; route++) {
    const token = <usize>load<i32>(job.tokenOf + ((<usize>route) << 2));
    readRow(job.source + token * job.size * widthOf(job.type), job.type, job.target + ((<usize>route * job.size) << 2), job.size);
  }
}

/** c = a · weightsᵀ for the routes of each expert, with the weights of its own. */
@unmanaged
export class ExpertProducts {
  product: usize; // a MatMulBlocks, or a MatMul, of the first expert
  levels: i32; // 0: a MatMul; 1: a MatMulBlocks of precision 32; 2: one that takes what quantizeRows made
  packing: usize; // a MatMul for packRows, or a QuantizeRows
  a: usize; // float32[routes, k]
  c: usize; // float32[routes, n]
  rows: usize; // where packed rows, or the values of quantized ones, go: as many as `packed` ends with
  scales: usize; // where those of quantized rows go
  sums: usize;
  starts: usize; // as routeExperts made it
  packed: usize; // the same
  experts: i32;
  k: i32;
  n: i32;
  few: i32; // routes of an expert up to which rows are not packed; 0 for those that are quantized
  valueRow: i32; // bytes of a row of values, scales and sums
  scaleRow: i32;
  sumRow: i32;
  weightStep: i32; // bytes from an expert's to the next one's
  scaleStep: i32;
  zeroStep: i32;
  scratch: i32; // the most bytes that one of the products needs
}

/** Bytes at the start of scratch for an expert's own job. */
const OWN: usize = 256;

/** Packs, or quantizes, the rows of each expert that has more than a few; parts share those of each. */
export function expertPacking(job: ExpertProducts, part: i32, parts: i32, scratch: usize): void {
  for (let expert = 0; expert < job.experts; expert++) {
    const from = startOf(job, expert), count = startOf(job, expert + 1) - from;
    if (count <= job.few) continue;
    const a = job.a + ((<usize>from * job.k) << 2);
    const first = <usize>load<i32>(job.packed + ((<usize>expert) << 2));
    if (job.levels == 2) {
      const own = changetype<QuantizeRows>(scratch);
      memory.copy(scratch, job.packing, offsetof<QuantizeRows>());
      own.m = count;
      own.source = a;
      own.values = job.rows + first * job.valueRow;
      own.scales = job.scales + first * job.scaleRow;
      own.sums = job.sums + first * job.sumRow;
      quantizeRows(own, part, parts, scratch + OWN);
    } else {
      const own = changetype<MatMul>(scratch);
      memory.copy(scratch, job.packing, offsetof<MatMul>());
      own.m = count;
      own.a = a;
      own.rows = job.rows + first * job.valueRow;
      packRows(own, part, parts, scratch + OWN);
    }
  }
}

export function expertPackingScratch(job: ExpertProducts): usize {
  return OWN + job.scratch;
}

/** The products; parts share the columns of each. */
export function expertProducts(job: ExpertProducts, part: i32, parts: i32, scratch: usize): void {
  for (let expert = 0; expert < job.experts; expert++) {
    const from = startOf(job, expert), count = startOf(job, expert + 1) - from;
    if (count == 0) continue;
    const a = job.a + ((<usize>from * job.k) << 2);
    const c = job.c + ((<usize>from * job.n) << 2);
    const first = <usize>load<i32>(job.packed + ((<usize>expert) << 2));
    const rows = count <= job.few ? 0 : job.rows + first * job.valueRow;
    const weights = <usize>expert * job.weightStep;
    if (job.levels) {
      const own = changetype<MatMulBlocks>(scratch);
      memory.copy(scratch, job.product, offsetof<MatMulBlocks>());
      own.m = count;
      own.c = c;
      if (job.levels == 2) {
        own.values = rows;
        own.aScales = job.scales + first * job.scaleRow;
        own.aSums = job.sums + first * job.sumRow;
      } else {
        own.a = a;
        own.rows = rows;
      }
      own.b += weights;
      own.scales += <usize>expert * job.scaleStep;
      if (own.zeros) own.zeros += <usize>expert * job.zeroStep;
      matmulBlocks(own, part, parts, scratch + OWN);
    } else {
      const own = changetype<MatMul>(scratch);
      memory.copy(scratch, job.product, offsetof<MatMul>());
      own.m = count;
      own.a = a;
      own.c = c;
      own.rows = rows;
      own.b += weights;
      matmul(own, part, parts, scratch + OWN);
    }
  }
}

export function expertProductsScratch(job: ExpertProducts): usize {
  return OWN + job.scratch;
}

// @ts-ignore: decorator
@inline
function startOf(job: ExpertProducts, expert: i32): i32 {
  return load<i32>(job.starts + ((<usize>expert) << 2));
}

/**
 * What an expert does between its products.
 * @codes expertActivationCode
 */
const RELU: i32 = 0;
const GELU: i32 = 1;
const SILU: i32 = 2;
const IDENTITY: i32 = 3;
const SWIGLU: i32 = 4;

/** What lies between an expert's products. */
@unmanaged
export class ExpertActivation {
  source: usize; // float32[routes, size], or twice as many with a linear half
  third: usize; // float32[routes, size], optional: the linear half
  bias: usize; // [experts, as the source], optional
  thirdBias: usize; // [experts, size], optional
  target: usize; // float32[routes, size]
  starts: usize; // as routeExperts made it
  type: i32; // elementCode of biases
  kind: i32; // expertActivationCode
  linear: i32; // distance of the linear half in the source: 0 for none, 1 in turns with the gate, size behind it
  routes: i32;
  experts: i32;
  size: i32;
  alpha: f32;
  beta: f32;
  limit: f32;
}

/** Parts share the routes. */
export function expertActivation(job: ExpertActivation, part: i32, parts: i32, scratch: usize): void {
  const size = job.size, linear = job.linear;
  const wide = linear ? 2 * size : size;
  const width = <usize>widthOf(job.type);
  const bytes = ((<usize>size + 3) & ~3) << 2;
  const biases = scratch;
  const gates = scratch + 2 * bytes, others = gates + bytes;
  const end = shareStart(job.routes, part + 1, parts);
  let expert = 0;
  for (let route = shareStart(job.routes, part, parts); route < end; route++) {
    while (load<i32>(job.starts + ((<usize>expert) << 2), 4) <= route) expert++;
    const x = job.source + ((<usize>route * wide) << 2);
    if (linear == 1) {
      for (let i: usize = 0; i < <usize>size << 2; i += 4) {
        store<f32>(gates + i, load<f32>(x + 2 * i));
        store<f32>(others + i, load<f32>(x + 2 * i, 4));
      }
    } else {
      memory.copy(gates, x, (<usize>size) << 2);
      if (linear) memory.copy(others, x + ((<usize>size) << 2), (<usize>size) << 2);
      else if (job.third) memory.copy(others, job.third + ((<usize>route * size) << 2), (<usize>size) << 2);
    }
    if (job.bias) {
      readRow(job.bias + <usize>expert * wide * width, job.type, biases, wide);
      addBias(gates, biases, linear == 1 ? 2 : 1, size);
      if (linear) addBias(others, biases + ((<usize>(linear == 1 ? 1 : size)) << 2), linear == 1 ? 2 : 1, size);
    }
    if (job.thirdBias) {
      readRow(job.thirdBias + <usize>expert * size * width, job.type, biases, size);
      addBias(others, biases, 1, size);
    }
    const gated = linear != 0 || job.third != 0;
    for (let at: usize = 0; at < bytes; at += 16) {
      let y = activated(job, v128.load(gates + at));
      if (gated) y = f32x4.mul(y, linearHalf(job, v128.load(others + at)));
      v128.store(gates + at, y);
    }
    memory.copy(job.target + ((<usize>route * size) << 2), gates, (<usize>size) << 2);
  }
}

/** Biases, and both halves. */
export function expertActivationScratch(job: ExpertActivation): usize {
  return (((<usize>job.size + 3) & ~3) << 2) * 4;
}

function addBias(x: usize, bias: usize, step: i32, size: i32): void {
  for (const end = x + ((<usize>size) << 2); x < end; x += 4, bias += step << 2) store<f32>(x, load<f32>(x) + load<f32>(bias));
}

// @ts-ignore: decorator
@inline
function activated(job: ExpertActivation, x: v128): v128 {
  const kind = job.kind;
  if (kind == SWIGLU) {
    const gate = f32x4.pmin(x, f32x4.splat(job.limit));
    return f32x4.mul(gate, sigmoid(f32x4.mul(gate, f32x4.splat(job.alpha))));
  }
  if (kind == SILU) return f32x4.mul(x, sigmoid(x));
  if (kind == RELU) return f32x4.pmax(x, zero());
  if (kind == IDENTITY) return x;
  const inner = f32x4.mul(f32x4.splat(0.7978845608), fma(f32x4.mul(f32x4.mul(x, x), x), f32x4.splat(0.044715), x));
  return f32x4.mul(f32x4.mul(x, f32x4.splat(0.5)), f32x4.add(tanh(inner), f32x4.splat(1)));
}

// @ts-ignore: decorator
@inline
function linearHalf(job: ExpertActivation, x: v128): v128 {
  if (job.kind != SWIGLU) return x;
  const bounded = f32x4.pmin(f32x4.pmax(x, f32x4.splat(-job.limit)), f32x4.splat(job.limit));
  return f32x4.add(bounded, f32x4.splat(job.beta));
}

/** What a token's experts answer, weighed and summed. */
@unmanaged
export class ExpertMix {
  source: usize; // float32[routes, size]
  bias: usize; // [experts, size], optional
  output: usize; // [tokens, size]
  chosen: usize; // as routeExperts made them
  places: usize;
  weights: usize;
  type: i32; // elementCode of bias and output
  tokens: i32;
  k: i32;
  size: i32;
}

/** Parts share the tokens. */
export function expertMix(job: ExpertMix, part: i32, parts: i32, scratch: usize): void {
  const size = job.size;
  const bytes = (<usize>size) << 2;
  const width = <usize>widthOf(job.type);
  const bias = scratch + bytes;
  const end = shareStart(job.tokens, part + 1, parts);
  for (let token = shareStart(job.tokens, part, parts); token < end; token++) {
    memory.fill(scratch, 0, bytes);
    for (let i = 0; i < job.k; i++) {
      const at = (<usize>(token * job.k + i)) << 2;
      const weight = load<f32>(job.weights + at);
      const x = job.source + <usize>load<i32>(job.places + at) * bytes;
      addScaled(scratch, x, weight, size);
      if (!job.bias) continue;
      readRow(job.bias + <usize>load<i32>(job.chosen + at) * size * width, job.type, bias, size);
      addScaled(scratch, bias, weight, size);
    }
    writeRow(scratch, job.output + <usize>token * size * width, job.type, size);
  }
}

export function expertMixScratch(job: ExpertMix): usize {
  return (<usize>job.size) << 3;
}

function addScaled(target: usize, x: usize, factor: f32, size: i32): void {
  const by = f32x4.splat(factor);
  let i = 0;
  for (; i + 4 <= size; i += 4, target += 16, x += 16) v128.store(target, fma(by, v128.load(x), v128.load(target)));
  for (; i < size; i++, target += 4, x += 4) store<f32>(target, load<f32>(target) + factor * load<f32>(x));
}
