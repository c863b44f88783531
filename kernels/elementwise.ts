/**
 * Chains of element-wise operators: a little program is run on tiles of up to 512 elements, instruction by instruction, so that what
 * one instruction makes is still in the nearest cache when the next one reads it. Registers are rows of float32 in scratch; a
 * float32 operand that lies together is read where it is, and such an output is written where it goes.
 */
import { FLOAT32 } from "./codes";
import { complementaryError, erf, exp, sigmoid, softplus, tanh } from "./exponential";
import { readOne, readRow, widthOf, writeRow } from "./float-types";
import { shareStart } from "./share";
import { fma } from "./simd";

/**
 * A chain of element-wise operators over [rows, columns]: a little program for eight registers. A register that was loaded is read
 * from its memory as long as it is used: a store to that memory comes after its last use.
 */
@unmanaged
export class Elementwise {
  program: usize; // instructions, each as instruction lays it out
  instructions: i32;
  rows: i32;
  columns: i32;
}

/**
 * One instruction of an element-wise chain.
 * @host
 */
@unmanaged
export class Instruction {
  operation: i32; // operationCode
  target: i32; // the register that is written, 0 to 7
  first: i32; // registers that are read
  second: i32;
  address: usize; // load and store
  type: i32; // load and store: elementCode
  rowStride: i32; // load and store: a row alone has 0 and 1, a column 1 and 0, a scalar 0 and 0
  columnStride: i32; // 0 or 1; stores have 1
  immediate: f32; // constant: the value
}

/**
 * The operators of an element-wise chain.
 * @codes operationCode
 */
const LOAD: i32 = 0;
const STORE: i32 = 1;
const CONSTANT: i32 = 2;
const ADD: i32 = 3;
const SUBTRACT: i32 = 4;
const MULTIPLY: i32 = 5;
const DIVIDE: i32 = 6;
const MINIMUM: i32 = 7;
const MAXIMUM: i32 = 8;
const NEGATE: i32 = 9;
const ABSOLUTE: i32 = 10;
const RECIPROCAL: i32 = 11;
const SQUARE_ROOT: i32 = 12;
const EXPONENTIAL: i32 = 13;
const SIGMOID: i32 = 14;
const TANH: i32 = 15;
const SILU: i32 = 16;
const GELU: i32 = 17; // by the error function
const GELU_TANH: i32 = 18;
const RELU: i32 = 19;
const ERROR_FUNCTION: i32 = 20;
const SQUARE: i32 = 21;
const SOFTPLUS: i32 = 22;

/** Elements of a tile at most. */
const TILE: i32 = 512;
/** Bytes of a register: a tile, and a vector that may be written past its end. */
const REGISTER: usize = 512 * 4 + 16;
/** Scratch begins with the addresses of the eight registers' contents. */
const ADDRESSES: usize = 32;

/** Runs the program on one part of the tiles: short rows several to a tile, long ones in pieces. */
export function elementwise(job: Elementwise, part: i32, parts: i32, scratch: usize): void {
  const columns = job.columns;
  const height = columns > TILE ? 1 : TILE / columns;
  const across = (columns + TILE - 1) / TILE;
  const tiles = ((job.rows + height - 1) / height) * across;
  const end = shareStart(tiles, part + 1, parts);
  for (let tile = shareStart(tiles, part, parts); tile < end; tile++) {
    const row = (tile / across) * height;
    const column = (tile % across) * TILE;
    runTile(job, row, min(height, job.rows - row), column, min(TILE, columns - column), scratch);
  }
}

/** The registers' addresses, and eight registers. */
export function elementwiseScratch(job: Elementwise): usize {
  return ADDRESSES + 8 * REGISTER;
}

function runTile(job: Elementwise, row: i32, rows: i32, column: i32, columns: i32, scratch: usize): void {
  const count = rows * columns;
  const last = job.instructions - 1;
  for (let i = 0; i <= last; i++) {
    const step = changetype<Instruction>(job.program + i * offsetof<Instruction>());
    const operation = step.operation;
    if (operation == STORE) {
      const from = contents(scratch, step.first);
      if (from != placeOf(step, row, column)) storeTile(step, row, rows, column, columns, from);
      continue;
    }
    let target = scratch + ADDRESSES + <usize>step.target * REGISTER;
    if (operation == LOAD) {
      if (isDirect(step, rows, columns, count)) target = placeOf(step, row, column);
      else loadTile(step, row, rows, column, columns, target);
    } else if (operation == CONSTANT) fill(target, step.immediate, count);
    else {
      if (i == last - 1) {
        const next = changetype<Instruction>(job.program + last * offsetof<Instruction>());
        if (next.operation == STORE && next.first == step.target && isDirect(next, rows, columns, count))
          target = placeOf(next, row, column);
      }
      compute(operation, contents(scratch, step.first), contents(scratch, step.second), target, count);
    }
    store<usize>(scratch + ((<usize>step.target) << 2), target);
  }
}

/** Where the contents of a register are. */
// @ts-ignore: decorator
@inline
function contents(scratch: usize, register: i32): usize {
  return load<usize>(scratch + ((<usize>register) << 2));
}

/** The first element of the tile in memory. */
// @ts-ignore: decorator
@inline
function placeOf(step: Instruction, row: i32, column: i32): usize {
  return step.address + (row * step.rowStride + column * step.columnStride) * widthOf(step.type);
}

/** True if the tile lies in memory as it would in a register, in whole vectors. */
// @ts-ignore: decorator
@inline
function isDirect(step: Instruction, rows: i32, columns: i32, count: i32): bool {
  if (step.type != FLOAT32 || step.columnStride != 1 || (count & 3) != 0) return false;
  return rows == 1 || step.rowStride == columns;
}

function loadTile(step: Instruction, row: i32, rows: i32, column: i32, columns: i32, target: usize): void {
  const type = step.type;
  for (const end = row + rows; row < end; row++, target += (<usize>columns) << 2) {
    const source = placeOf(step, row, column);
    if (step.columnStride == 1) readRow(source, type, target, columns);
    else fill(target, readOne(source, type), columns);
  }
}

function storeTile(step: Instruction, row: i32, rows: i32, column: i32, columns: i32, source: usize): void {
  for (const end = row + rows; row < end; row++, source += (<usize>columns) << 2)
    writeRow(source, placeOf(step, row, column), step.type, columns);
}

/** Writes whole vectors: up to three elements behind the last are overwritten. */
function fill(target: usize, value: f32, count: i32): void {
  const vector = f32x4.splat(value);
  for (const end = target + ((<usize>count) << 2); target < end; target += 16) v128.store(target, vector);
}

/** One operator on whole vectors; the result may replace an operand. */
function compute(operation: i32, a: usize, b: usize, target: usize, count: i32): void {
  switch (operation) {
    case ADD: return each(ADD, a, b, target, count);
    case SUBTRACT: return each(SUBTRACT, a, b, target, count);
    case MULTIPLY: return each(MULTIPLY, a, b, target, count);
    case DIVIDE: return each(DIVIDE, a, b, target, count);
    case MINIMUM: return each(MINIMUM, a, b, target, count);
    case MAXIMUM: return each(MAXIMUM, a, b, target, count);
    case NEGATE: return each(NEGATE, a, b, target, count);
    case ABSOLUTE: return each(ABSOLUTE, a, b, target, count);
    case RECIPROCAL: return each(RECIPROCAL, a, b, target, count);
    case SQUARE_ROOT: return each(SQUARE_ROOT, a, b, target, count);
    case EXPONENTIAL: return each(EXPONENTIAL, a, b, target, count);
    case SIGMOID: return each(SIGMOID, a, b, target, count);
    case TANH: return each(TANH, a, b, target, count);
    case SILU: return each(SILU, a, b, target, count);
    case GELU: return each(GELU, a, b, target, count);
    case GELU_TANH: return each(GELU_TANH, a, b, target, count);
    case RELU: return each(RELU, a, b, target, count);
    case ERROR_FUNCTION: return each(ERROR_FUNCTION, a, b, target, count);
    case SQUARE: return each(SQUARE, a, b, target, count);
    default: return each(SOFTPLUS, a, b, target, count);
  }
}

/** The loop of one operator, which is a constant where this is inlined. */
// @ts-ignore: decorator
@inline
function each(operation: i32, a: usize, b: usize, target: usize, count: i32): void {
  for (const end = target + ((<usize>count) << 2); target < end; target += 16, a += 16) {
    const x = v128.load(a);
    if (operation >= ADD && operation <= MAXIMUM) {
      v128.store(target, two(operation, x, v128.load(b)));
      b += 16;
    } else v128.store(target, one(operation, x));
  }
}

// @ts-ignore: decorator
@inline
function two(operation: i32, a: v128, b: v128): v128 {
  if (operation == ADD) return f32x4.add(a, b);
  if (operation == SUBTRACT) return f32x4.sub(a, b);
  if (operation == MULTIPLY) return f32x4.mul(a, b);
  if (operation == DIVIDE) return f32x4.div(a, b);
  if (operation == MINIMUM) return f32x4.min(a, b);
  return f32x4.max(a, b);
}

// @ts-ignore: decorator
@inline
function one(operation: i32, x: v128): v128 {
  if (operation == NEGATE) return f32x4.neg(x);
  if (operation == ABSOLUTE) return f32x4.abs(x);
  if (operation == RECIPROCAL) return f32x4.div(f32x4.splat(1), x);
  if (operation == SQUARE_ROOT) return f32x4.sqrt(x);
  if (operation == EXPONENTIAL) return keepNaN(x, exp(x));
  if (operation == SIGMOID) return keepNaN(x, sigmoid(x));
  if (operation == TANH) return keepNaN(x, tanh(x));
  if (operation == SILU) return f32x4.mul(x, sigmoid(x));
  if (operation == GELU) return gelu(x);
  if (operation == GELU_TANH) return geluTanh(x);
  if (operation == RELU) return f32x4.max(x, f32x4.splat(0));
  if (operation == ERROR_FUNCTION) return keepNaN(x, erf(x));
  if (operation == SQUARE) return f32x4.mul(x, x);
  return softplus(x);
}

/** The result, but NaN where x is. */
// @ts-ignore: decorator
@inline
function keepNaN(x: v128, result: v128): v128 {
  return v128.bitselect(result, x, f32x4.eq(x, x));
}

/** x · Φ(x). The smaller of Φ(x) and 1 - Φ(x) is computed, so that neither loses its digits. */
// @ts-ignore: decorator
@inline
function gelu(x: v128): v128 {
  const half = f32x4.mul(complementaryError(f32x4.mul(f32x4.abs(x), f32x4.splat(0.7071067811865476))), f32x4.splat(0.5));
  const weight = v128.bitselect(half, f32x4.sub(f32x4.splat(1), half), f32x4.lt(x, f32x4.splat(0)));
  return f32x4.mul(x, weight);
}

/** ½ · x · (1 + tanh u) = x · sigmoid(2 · u), with u = √(2/π) · (x + 0.044715 · x³). */
// @ts-ignore: decorator
@inline
function geluTanh(x: v128): v128 {
  const cubic = fma(f32x4.mul(x, x), f32x4.splat(0.07135481627), f32x4.splat(1.5957691216));
  return f32x4.mul(x, sigmoid(f32x4.mul(x, cubic)));
}
