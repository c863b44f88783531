/**
 * Element-wise operators on any type, one operator a job: operands are read by their strides into registers of one kind, a tile at a
 * time, computed there exactly as their type asks, and written back. Bools and whole words have registers of their own, in vectors.
 * Chains of floats are elementwise.ts's.
 */
import { BOOL, BYTES, DOUBLE, INTEGER, UNSIGNED, WORDS } from "./codes";
import { readElements, writeElements } from "./element-types";
import { shareStart } from "./share";
import { sine } from "./trigonometry";

/**
 * One element-wise operator on any type, all operands by strides. A `layout` holds the sizes of the dimensions, then for each
 * operand, the output first, its strides in bytes: as many words as there are dimensions, each.
 */
@unmanaged
export class Elements {
  operation: i32; // elementsOperation
  kind: i32; // registerKind
  output: usize;
  outputType: i32; // elementCode
  first: usize;
  firstType: i32;
  second: usize; // optional, like third
  secondType: i32;
  third: usize;
  thirdType: i32;
  rank: i32; // at least 1; no size is 0
  layout: usize; // output, first, second, third
}

/**
 * The operators of `elements`.
 * @codes elementsOperation
 */
const COPY: i32 = 0;
const ADD: i32 = 1;
const SUBTRACT: i32 = 2;
const MULTIPLY: i32 = 3;
const DIVIDE: i32 = 4; // integers truncate; by 0 they give 0
const MINIMUM: i32 = 5;
const MAXIMUM: i32 = 6;
const EQUAL: i32 = 7;
const LESS: i32 = 8;
const LESS_OR_EQUAL: i32 = 9;
const AND: i32 = 10;
const OR: i32 = 11;
const EXCLUSIVE_OR: i32 = 12;
const NOT: i32 = 13; // of bytes: 1 - x; of integers: every bit
const SELECT: i32 = 14; // first ? second : third
const NEGATE: i32 = 15;
const ABSOLUTE: i32 = 16;
const SIGN: i32 = 17;
const FLOOR: i32 = 18;
const CEILING: i32 = 19;
const ROUND: i32 = 20; // ties to even
const SINE: i32 = 21;
const COSINE: i32 = 22;
const MODULO: i32 = 23; // integers; the divisor's sign, 0 by 0
const IS_NOT_A_NUMBER: i32 = 24; // floats

/** Bytes of a register: a tile, and a vector that may be written past its end. */
const REGISTER: usize = 2048 + 16;

/** Computes one part of the tiles: short rows several to a tile, long ones in pieces. */
export function elements(job: Elements, part: i32, parts: i32, scratch: usize): void {
  const last = job.rank - 1;
  const columns = load<i32>(job.layout + ((<usize>last) << 2));
  let rows = 1;
  for (let axis = 0; axis < last; axis++) rows *= load<i32>(job.layout + ((<usize>axis) << 2));
  const most = job.kind == BYTES ? 2048 : job.kind == WORDS ? 512 : 256;
  const height = columns > most ? 1 : most / columns;
  const across = (columns + most - 1) / most;
  const tiles = ((rows + height - 1) / height) * across;
  const end = shareStart(tiles, part + 1, parts);
  for (let tile = shareStart(tiles, part, parts); tile < end; tile++) {
    const row = (tile / across) * height;
    const column = (tile % across) * most;
    runTile(job, row, min(height, rows - row), column, min(most, columns - column), scratch);
  }
}

/** Three registers. */
export function elementsScratch(job: Elements): usize {
  return 3 * REGISTER;
}

function runTile(job: Elements, row: i32, rows: i32, column: i32, columns: i32, a: usize): void {
  const count = rows * columns;
  const b = a + REGISTER;
  const c = b + REGISTER;
  readTile(job, 1, job.first, job.firstType, row, rows, column, columns, a);
  if (job.second) readTile(job, 2, job.second, job.secondType, row, rows, column, columns, b);
  if (job.third) readTile(job, 3, job.third, job.thirdType, row, rows, column, columns, c);
  const operation = job.operation;
  let kind = job.kind;
  if (operation == COPY) {
    // What was read is what is written.
  } else if (kind == INTEGER) computeIntegers(operation, a, b, c, count);
  else if (kind == UNSIGNED) computeUnsigned(operation, a, b, count);
  else if (kind == DOUBLE) {
    computeDoubles(operation, a, b, count);
    if (answers(operation)) kind = INTEGER;
  } else if (kind == BYTES) computeBytes(operation, a, b, count);
  else selectWords(a, b, c, count);
  const step = stepOf(job, 0);
  const bytes: usize = kind == BYTES ? columns : kind == WORDS ? columns << 2 : columns << 3;
  for (let i = 0; i < rows; i++, a += bytes) {
    const target = job.output + placeOf(job, 0, row + i) + column * step;
    if (kind == BYTES || kind == WORDS) memory.copy(target, a, bytes);
    else writeElements(a, kind, target, job.outputType, step, columns);
  }
}

/** True for operators whose results are integers, 0 where the answer is no. */
// @ts-ignore: decorator
@inline
function answers(operation: i32): bool {
  return (operation >= EQUAL && operation <= LESS_OR_EQUAL) || operation == IS_NOT_A_NUMBER;
}

/** Bytes between neighbouring elements of a row; operand 0 is the output. */
// @ts-ignore: decorator
@inline
function stepOf(job: Elements, operand: i32): i32 {
  return load<i32>(job.layout + ((<usize>((operand + 2) * job.rank - 1)) << 2));
}

/** Bytes from an operand's first element to the first one of a row. */
function placeOf(job: Elements, operand: i32, row: i32): i32 {
  const strides = job.layout + ((<usize>((operand + 1) * job.rank)) << 2);
  let place = 0;
  for (let axis = job.rank - 2; axis >= 0; axis--) {
    const size = axis == 0 ? row + 1 : load<i32>(job.layout + ((<usize>axis) << 2));
    place += (row % size) * load<i32>(strides + ((<usize>axis) << 2));
    row /= size;
  }
  return place;
}

function readTile(
  job: Elements, operand: i32, base: usize, type: i32, row: i32, rows: i32, column: i32, columns: i32, target: usize,
): void {
  const kind = job.kind;
  const step = stepOf(job, operand);
  const bytes: usize = kind == BYTES ? columns : kind == WORDS ? columns << 2 : columns << 3;
  for (const end = row + rows; row < end; row++, target += bytes) {
    const source = base + placeOf(job, operand, row) + column * step;
    if (kind == BYTES) readBytes(source, step, target, columns);
    else if (kind == WORDS) readWords(source, type, step, target, columns);
    else if (step == 0 && columns > 1) {
      readElements(source, type, 0, target, 1);
      repeatFirst(target, columns);
    } else readElements(source, type, step, target, columns);
  }
}

function repeatFirst(target: usize, count: i32): void {
  const value = v128.load_splat<u64>(target);
  for (; count >= 2; count -= 2, target += 16) v128.store(target, value);
  if (count > 0) v128.store_lane<u64>(target, value, 0);
}

function readBytes(source: usize, step: i32, target: usize, count: i32): void {
  if (step == 0) {
    memory.fill(target, <u8>(load<u8>(source) != 0), count);
    return;
  }
  if (step == 1) {
    for (; count >= 16; count -= 16, source += 16, target += 16) {
      v128.store(target, v128.and(i8x16.ne(v128.load(source), i8x16.splat(0)), i8x16.splat(1)));
    }
  }
  for (; count > 0; count--, source += step, target++) store<u8>(target, <u8>(load<u8>(source) != 0));
}

/** Words as they are; bools become words of all ones or none. */
function readWords(source: usize, type: i32, step: i32, target: usize, count: i32): void {
  if (type == BOOL) {
    if (step == 1) {
      for (; count >= 4; count -= 4, source += 4, target += 16) {
        const bytes = i16x8.extend_low_i8x16_u(v128.load_zero<u32>(source));
        v128.store(target, i32x4.ne(i32x4.extend_low_i16x8_u(bytes), i32x4.splat(0)));
      }
    }
    for (; count > 0; count--, source += step, target += 4) store<i32>(target, -(<i32>(load<u8>(source) != 0)));
  } else if (step == 4) memory.copy(target, source, (<usize>count) << 2);
  else if (step == 0) fillWords(target, load<u32>(source), count);
  else for (; count > 0; count--, source += step, target += 4) store<u32>(target, load<u32>(source));
}

function fillWords(target: usize, value: u32, count: i32): void {
  const vector = i32x4.splat(value);
  for (; count >= 4; count -= 4, target += 16) v128.store(target, vector);
  for (; count > 0; count--, target += 4) store<u32>(target, value);
}

function selectWords(a: usize, b: usize, c: usize, count: i32): void {
  for (const end = a + ((<usize>count) << 2); a < end; a += 16, b += 16, c += 16) {
    v128.store(a, v128.bitselect(v128.load(b), v128.load(c), v128.load(a)));
  }
}

function computeBytes(operation: i32, a: usize, b: usize, count: i32): void {
  for (const end = a + <usize>count; a < end; a += 16, b += 16) {
    const x = v128.load(a);
    let result: v128;
    if (operation == AND) result = v128.and(x, v128.load(b));
    else if (operation == OR) result = v128.or(x, v128.load(b));
    else result = v128.xor(x, operation == NOT ? i8x16.splat(1) : v128.load(b));
    v128.store(a, result);
  }
}

function computeIntegers(operation: i32, a: usize, b: usize, c: usize, count: i32): void {
  switch (operation) {
    case EQUAL: return compare<i64>(EQUAL, a, b, count);
    case LESS: return compare<i64>(LESS, a, b, count);
    case LESS_OR_EQUAL: return compare<i64>(LESS_OR_EQUAL, a, b, count);
    case SELECT:
      for (const end = a + ((<usize>count) << 3); a < end; a += 8, b += 8, c += 8) {
        store<u64>(a, load<u64>(a) ? load<u64>(b) : load<u64>(c));
      }
      return;
    default: return each<i64>(operation, a, b, count);
  }
}

/** Comparisons in whole vectors: all ones where they hold. */
// @ts-ignore: decorator
@inline
function compare<T>(operation: i32, a: usize, b: usize, count: i32): void {
  for (const end = a + ((<usize>count) << 3); a < end; a += 16, b += 16) {
    const x = v128.load(a), y = v128.load(b);
    if (operation == EQUAL) v128.store(a, v128.eq<T>(x, y));
    else if (operation == LESS) v128.store(a, v128.lt<T>(x, y));
    else v128.store(a, v128.le<T>(x, y));
  }
}

/** What differs between signed and unsigned integers. */
function computeUnsigned(operation: i32, a: usize, b: usize, count: i32): void {
  each<u64>(operation, a, b, count);
}

/** The loop of one operator on integers, a constant where that pays. The result replaces the first operand. */
// @ts-ignore: decorator
@inline
function each<T>(operation: i32, a: usize, b: usize, count: i32): void {
  for (const end = a + ((<usize>count) << 3); a < end; a += 8) {
    const x = load<T>(a);
    if (operation == NOT || (operation >= NEGATE && operation <= SIGN)) {
      store<T>(a, one<T>(operation, x));
    } else {
      store<T>(a, two<T>(operation, x, load<T>(b)));
      b += 8;
    }
  }
}

// @ts-ignore: decorator
@inline
function one<T>(operation: i32, x: T): T {
  if (operation == NOT) return <T>~x;
  if (operation == NEGATE) return <T>(0 - x);
  if (operation == ABSOLUTE) return x < <T>0 ? <T>(0 - x) : x;
  return <T>(<i32>(x > <T>0) - <i32>(x < <T>0));
}

/** By 0 a quotient and a rest are 0; the least integer by -1 is itself. A rest has the divisor's sign. */
// @ts-ignore: decorator
@inline
function two<T>(operation: i32, x: T, y: T): T {
  if (operation == ADD) return <T>(x + y);
  if (operation == SUBTRACT) return <T>(x - y);
  if (operation == MULTIPLY) return <T>(x * y);
  if (operation == DIVIDE) {
    if (isSigned<T>() && y == <T>-1) return <T>(0 - x);
    return y == <T>0 ? <T>0 : <T>(x / y);
  }
  if (operation == MODULO) {
    if (y == <T>0 || (isSigned<T>() && y == <T>-1)) return <T>0;
    const rest = <T>(x % y);
    if (isSigned<T>() && rest != <T>0 && rest < <T>0 != y < <T>0) return <T>(rest + y);
    return rest;
  }
  if (operation == MINIMUM) return x < y ? x : y;
  if (operation == MAXIMUM) return x > y ? x : y;
  if (operation == EQUAL) return <T>(x == y);
  if (operation == LESS) return <T>(x < y);
  if (operation == LESS_OR_EQUAL) return <T>(x <= y);
  if (operation == AND) return <T>(x & y);
  if (operation == OR) return <T>(x | y);
  return <T>(x ^ y);
}

function computeDoubles(operation: i32, a: usize, b: usize, count: i32): void {
  switch (operation) {
    case EQUAL: return compare<f64>(EQUAL, a, b, count);
    case LESS: return compare<f64>(LESS, a, b, count);
    case LESS_OR_EQUAL: return compare<f64>(LESS_OR_EQUAL, a, b, count);
    default: return eachDouble(operation, a, b, count);
  }
}

/** The same on float64; operators that answer leave integers. */
// @ts-ignore: decorator
@inline
function eachDouble(operation: i32, a: usize, b: usize, count: i32): void {
  for (const end = a + ((<usize>count) << 3); a < end; a += 8) {
    const x = load<f64>(a);
    if (operation == IS_NOT_A_NUMBER) store<i64>(a, <i64>(x != x));
    else if (operation >= NEGATE) store<f64>(a, oneDouble(operation, x));
    else {
      store<f64>(a, twoDoubles(operation, x, load<f64>(b)));
      b += 8;
    }
  }
}

// @ts-ignore: decorator
@inline
function oneDouble(operation: i32, x: f64): f64 {
  if (operation == NEGATE) return -x;
  if (operation == ABSOLUTE) return abs(x);
  if (operation == FLOOR) return floor(x);
  if (operation == CEILING) return ceil(x);
  if (operation == ROUND) return nearest(x);
  if (operation == SINE) return sine(x, 0);
  if (operation == COSINE) return sine(x, 1);
  return x != x ? x : <f64>(<i32>(x > 0) - <i32>(x < 0));
}

// @ts-ignore: decorator
@inline
function twoDoubles(operation: i32, x: f64, y: f64): f64 {
  if (operation == ADD) return x + y;
  if (operation == SUBTRACT) return x - y;
  if (operation == MULTIPLY) return x * y;
  if (operation == DIVIDE) return x / y;
  if (operation == MINIMUM) return min(x, y);
  return max(x, y);
}
