/**
 * Linear attention: a state of float32, [size, valueSize] for each head, that every token lets decay, updates and reads. A few tokens take it
 * row by row as it lies; more of them take eight of its columns at a time into scratch, where all tokens of a chunk meet them.
 */
import { exp } from "./exponential";
import { readOne, readRow, widthOf, writeRow } from "./float-types";
import { shareStart } from "./share";
import { fma, sum, zero } from "./simd";

/** S ← exp(decay) · S; S ← S + k ⊗ v, or S + k ⊗ rate · (v − Sᵀk) with rates; output = scale · Sᵀq. Heads share others as ranges of equal length. */
@unmanaged
export class LinearAttention {
  query: usize; // [batch, tokens, queries, size]
  key: usize; // [batch, tokens, keys, size]
  value: usize; // [batch, tokens, states, valueSize]
  decay: usize; // [batch, tokens, states, gates], optional
  rate: usize; // [batch, tokens, rates], optional
  past: usize; // float32[batch, states, size, valueSize], optional: zeros
  state: usize; // the same; may be past
  output: usize; // [batch, tokens, max(queries, states), valueSize]
  type: i32; // elementCode of all but the state
  batch: i32;
  tokens: i32;
  queries: i32;
  keys: i32;
  states: i32;
  size: i32;
  valueSize: i32;
  gates: i32; // size, or 1 for all rows of a head
  rates: i32; // states, or 1 for all of them
  scale: f32;
  chunk: i32; // tokens that are prepared at a time
}

/** All states; parts share them. */
export function linearAttention(job: LinearAttention, part: i32, parts: i32, scratch: usize): void {
  const bytes = (<usize>job.size * job.valueSize) << 2;
  const tasks = job.batch * job.states;
  const end = shareStart(tasks, part + 1, parts);
  for (let task = shareStart(tasks, part, parts); task < end; task++) {
    const state = job.state + task * bytes;
    if (!job.past) memory.fill(state, 0, bytes);
    else if (job.past != job.state) memory.copy(state, job.past + task * bytes, bytes);
    for (let first = 0; first < job.tokens; first += job.chunk) {
      const count = min(job.chunk, job.tokens - first);
      takeChunk(job, task / job.states, task % job.states, first, count, state, scratch);
    }
  }
}

/** What a chunk's tokens bring, and eight columns of the state. */
export function linearAttentionScratch(job: LinearAttention): usize {
  const group = max(job.queries, job.states) / job.states;
  return <usize>(job.chunk * ((3 + group) * job.size + (1 + group) * (job.valueSize + 1)) + 8 * job.size) << 2;
}

/** Tokens from which on columns are taken into scratch. */
const MANY: i32 = 4;

function takeChunk(job: LinearAttention, sample: i32, head: i32, first: i32, count: i32, state: usize, scratch: usize): void {
  const size = job.size, valueSize = job.valueSize, type = job.type, width = <usize>widthOf(type);
  const outputs = max(job.queries, job.states);
  const group = outputs / job.states;
  const row = (<usize>size) << 2, valueRow = (<usize>valueSize) << 2;
  const decays = scratch;
  const keys = decays + count * row;
  const metKeys = keys + count * row;
  const queries = metKeys + count * row;
  const values = queries + group * count * row;
  const sums = values + count * valueRow;
  const rates = sums + group * count * valueRow;
  const dots = rates + ((<usize>count) << 2);
  const strip = dots + ((<usize>group * count) << 2);
  const start = sample * job.tokens + first;
  const keyHead = (head * job.keys) / job.states;
  for (let token = 0; token < count; token++) {
    const at = start + token;
    const own = token * row;
    readRow(job.key + <usize>(at * job.keys + keyHead) * size * width, type, keys + own, size);
    readRow(job.value + <usize>(at * job.states + head) * valueSize * width, type, values + token * valueRow, valueSize);
    readDecays(job, at, head, decays + own);
    multiply(keys + own, decays + own, metKeys + own, size);
    const rate = job.rate + <usize>(at * job.rates + (job.rates == 1 ? 0 : head)) * width;
    store<f32>(rates + (token << 2), job.rate ? readOne(rate, type) : 1);
    for (let i = 0; i < group; i++) {
      const query = queries + (i * count + token) * row;
      const queryHead = ((head * group + i) * job.queries) / outputs;
      readRow(job.query + <usize>(at * job.queries + queryHead) * size * width, type, query, size);
      store<f32>(dots + ((i * count + token) << 2), dot(query, keys + own, size));
      multiply(query, decays + own, query, size);
    }
  }
  if (count >= MANY && (valueSize & 7) == 0) {
    for (let column = 0; column < valueSize; column += 8) {
      const at = (<usize>column) << 2;
      takeStrip(job, count, group, state + at, decays, keys, metKeys, queries, values + at, sums + at, rates, dots, strip);
    }
  } else takeRows(job, count, group, state, decays, keys, metKeys, queries, values, sums, rates, dots);
  for (let token = 0; token < count; token++) {
    for (let i = 0; i < group; i++) {
      const target = job.output + <usize>((start + token) * outputs + head * group + i) * valueSize * width;
      writeRow(sums + (i * count + token) * valueRow, target, type, valueSize);
    }
  }
}

/** Tokens one by one, on rows of the state as they lie. */
function takeRows(
  job: LinearAttention, count: i32, group: i32, state: usize, decays: usize, keys: usize, metKeys: usize, queries: usize, values: usize, sums: usize,
  rates: usize, dots: usize,
): void {
  const size = job.size, valueSize = job.valueSize;
  const row = (<usize>size) << 2, valueRow = (<usize>valueSize) << 2;
  for (let token = 0; token < count; token++) {
    const own = token * row, value = values + token * valueRow;
    // What the state says of the key, then what is new about the value, lie where the last head's sums go in the end.
    const last = sums + ((group - 1) * count + token) * valueRow;
    for (let i = 0; i < group; i++) memory.fill(sums + (i * count + token) * valueRow, 0, valueRow);
    if (job.rate) {
      memory.fill(last, 0, valueRow);
      addRows(state, size, valueSize, metKeys + own, last);
      const rate = load<f32>(rates + (token << 2));
      for (let j: usize = 0; j < valueRow; j += 4) store<f32>(value + j, rate * (load<f32>(value + j) - load<f32>(last + j)));
      memory.fill(last, 0, valueRow);
    }
    for (let i = 0; i < group; i++) {
      const target = sums + (i * count + token) * valueRow;
      addRows(state, size, valueSize, queries + (i * count + token) * row, target);
      const met = load<f32>(dots + ((i * count + token) << 2));
      for (let j: usize = 0; j < valueRow; j += 4) store<f32>(target + j, job.scale * (load<f32>(target + j) + met * load<f32>(value + j)));
    }
    updateRows(state, size, valueSize, decays + own, keys + own, value);
  }
}

/** target += Σ factor · row, four rows at a time. */
function addRows(rows: usize, count: i32, length: i32, factors: usize, target: usize): void {
  const row = (<usize>length) << 2;
  const whole = row & ~15;
  let i = 0;
  for (; i + 4 <= count; i += 4, factors += 16, rows += 4 * row) {
    const a = v128.load_splat<f32>(factors), b = v128.load_splat<f32>(factors, 4);
    const c = v128.load_splat<f32>(factors, 8), d = v128.load_splat<f32>(factors, 12);
    let j: usize = 0;
    for (; j < whole; j += 16) {
      const p = rows + j;
      const low = fma(v128.load(p), a, v128.load(target + j)), high = f32x4.mul(v128.load(p + row), b);
      v128.store(target + j, f32x4.add(fma(v128.load(p + 2 * row), c, low), fma(v128.load(p + 3 * row), d, high)));
    }
    for (; j < row; j += 4) {
      const p = rows + j;
      let total = load<f32>(target + j) + load<f32>(p) * load<f32>(factors) + load<f32>(p + row) * load<f32>(factors, 4);
      total += load<f32>(p + 2 * row) * load<f32>(factors, 8) + load<f32>(p + 3 * row) * load<f32>(factors, 12);
      store<f32>(target + j, total);
    }
  }
  for (; i < count; i++, factors += 4, rows += row) {
    const factor = load<f32>(factors);
    for (let j: usize = 0; j < row; j += 4) store<f32>(target + j, load<f32>(target + j) + factor * load<f32>(rows + j));
  }
}

/** row = decay · row + key · added. */
function updateRows(rows: usize, count: i32, length: i32, decays: usize, keys: usize, added: usize): void {
  const row = (<usize>length) << 2;
  const whole = row & ~15;
  for (let i = 0; i < count; i++, decays += 4, keys += 4, rows += row) {
    const decay = v128.load_splat<f32>(decays), key = v128.load_splat<f32>(keys);
    let j: usize = 0;
    for (; j < whole; j += 16) v128.store(rows + j, fma(key, v128.load(added + j), f32x4.mul(decay, v128.load(rows + j))));
    for (; j < row; j += 4) store<f32>(rows + j, load<f32>(keys) * load<f32>(added + j) + load<f32>(decays) * load<f32>(rows + j));
  }
}

/** Eight columns of the state in scratch while all tokens meet them: the walk that updates them for one token reads them for the next. */
function takeStrip(
  job: LinearAttention, count: i32, group: i32, state: usize, decays: usize, keys: usize, metKeys: usize, queries: usize, values: usize, sums: usize,
  rates: usize, dots: usize, strip: usize,
): void {
  const size = job.size;
  const row = (<usize>size) << 2, valueRow = (<usize>job.valueSize) << 2;
  const scale = f32x4.splat(job.scale);
  const end = strip + ((<usize>size) << 5);
  let a = zero(), b = zero(), c = zero(), d = zero();
  for (let p = strip, at = state, i: usize = 0; p < end; p += 32, at += valueRow, i += 4) {
    const low = v128.load(at), high = v128.load(at, 16);
    const key = v128.load_splat<f32>(metKeys + i), query = v128.load_splat<f32>(queries + i);
    v128.store(p, low);
    v128.store(p, high, 16);
    a = fma(low, key, a);
    b = fma(high, key, b);
    c = fma(low, query, c);
    d = fma(high, query, d);
  }
  for (let token = 0; token < count; token++) {
    const value = values + token * valueRow, own = (<usize>token) << 2;
    let low = v128.load(value), high = v128.load(value, 16);
    if (job.rate) {
      const rate = v128.load_splat<f32>(rates + own);
      low = f32x4.mul(rate, f32x4.sub(low, a));
      high = f32x4.mul(rate, f32x4.sub(high, b));
    }
    let met = v128.load_splat<f32>(dots + own);
    v128.store(sums + token * valueRow, f32x4.mul(scale, fma(met, low, c)));
    v128.store(sums + token * valueRow, f32x4.mul(scale, fma(met, high, d)), 16);
    for (let head = 1; head < group; head++) {
      let query = queries + (head * count + token) * row;
      let e = zero(), f = zero();
      for (let p = strip; p < end; p += 32, query += 4) {
        const factor = v128.load_splat<f32>(query);
        e = fma(v128.load(p), factor, e);
        f = fma(v128.load(p, 16), factor, f);
      }
      met = v128.load_splat<f32>(dots + ((head * count + token) << 2));
      const target = sums + (head * count + token) * valueRow;
      v128.store(target, f32x4.mul(scale, fma(met, low, e)));
      v128.store(target, f32x4.mul(scale, fma(met, high, f)), 16);
    }
    // The last token is followed by itself, for nothing.
    const here = token * row, next = min(token + 1, count - 1) * row;
    let decay = decays + here, key = keys + here, nextKey = metKeys + next, query = queries + next;
    a = zero();
    b = zero();
    c = zero();
    d = zero();
    let p = strip;
    do {
      const gate = v128.load_splat<f32>(decay), factor = v128.load_splat<f32>(key);
      const first = fma(factor, low, f32x4.mul(gate, v128.load(p)));
      const second = fma(factor, high, f32x4.mul(gate, v128.load(p, 16)));
      v128.store(p, first);
      v128.store(p, second, 16);
      const x = v128.load_splat<f32>(nextKey), y = v128.load_splat<f32>(query);
      a = fma(first, x, a);
      b = fma(second, x, b);
      c = fma(first, y, c);
      d = fma(second, y, d);
      decay += 4;
      key += 4;
      nextKey += 4;
      query += 4;
      p += 32;
    } while (p < end);
  }
  for (let p = strip, at = state; p < end; p += 32, at += valueRow) {
    v128.store(at, v128.load(p));
    v128.store(at, v128.load(p, 16), 16);
  }
}

function multiply(a: usize, b: usize, target: usize, count: i32): void {
  let i = 0;
  for (; i + 4 <= count; i += 4, a += 16, b += 16, target += 16) v128.store(target, f32x4.mul(v128.load(a), v128.load(b)));
  for (; i < count; i++, a += 4, b += 4, target += 4) store<f32>(target, load<f32>(a) * load<f32>(b));
}

function dot(a: usize, b: usize, count: i32): f32 {
  let total = zero();
  let i = 0;
  for (; i + 4 <= count; i += 4, a += 16, b += 16) total = fma(v128.load(a), v128.load(b), total);
  let result = sum(total);
  for (; i < count; i++, a += 4, b += 4) result += load<f32>(a) * load<f32>(b);
  return result;
}

/** e^decay of each row of the state; 1 where nothing decays. */
function readDecays(job: LinearAttention, at: i32, head: i32, target: usize): void {
  const size = job.size, width = <usize>widthOf(job.type);
  let factor = f32x4.splat(1);
  if (job.decay && job.gates > 1) {
    readRow(job.decay + (<usize>(at * job.states + head) * size) * width, job.type, target, size);
    let i = 0;
    for (; i + 4 <= size; i += 4, target += 16) v128.store(target, exp(v128.load(target)));
    for (; i < size; i++, target += 4) store<f32>(target, f32x4.extract_lane(exp(f32x4.splat(load<f32>(target))), 0));
    return;
  }
  if (job.decay) factor = exp(f32x4.splat(readOne(job.decay + <usize>(at * job.states + head) * width, job.type)));
  let i = 0;
  for (; i + 4 <= size; i += 4, target += 16) v128.store(target, factor);
  for (; i < size; i++, target += 4) store<f32>(target, f32x4.extract_lane(factor, 0));
}
