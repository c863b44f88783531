/** Reductions over axes, and running sums and products along one: in float64 for floats, in 64-bit integers for the others. */
import { DOUBLE, UNSIGNED } from "./codes";
import { readElements, writeElements } from "./element-types";
import { shareStart } from "./share";

/** A reduction: every result folds `rows` rows of `length` elements. */
@unmanaged
export class Reduce {
  operation: i32; // foldOperation
  kind: i32; // registerKind: integer, unsigned or double
  source: usize;
  output: usize;
  type: i32; // elementCode of both
  count: i32; // results
  keptRank: i32;
  kept: usize; // layout of the results: output, source
  outerRank: i32;
  outer: usize; // layout of the rows: source
  rows: i32;
  length: i32;
  step: i32; // bytes between elements of a row
}

/** Running sums or products along lines. */
@unmanaged
export class Scan {
  operation: i32; // foldOperation: sum or product
  kind: i32;
  source: usize; // the first element that is folded: with negative steps the last of its line
  output: usize;
  type: i32; // elementCode of both
  lines: i32;
  rank: i32;
  layout: usize; // of the lines: output, source
  length: i32;
  sourceStep: i32; // bytes
  outputStep: i32;
  exclusive: i32; // 1: an element is not part of its own sum
}

/**
 * How `reduce` and `scan` fold.
 * @codes foldOperation
 */
const SUM: i32 = 0;
const PRODUCT: i32 = 1;
const MINIMUM: i32 = 2;
const MAXIMUM: i32 = 3;
const MEAN: i32 = 4;
const ABSOLUTE_SUM: i32 = 5;
const SQUARE_SUM: i32 = 6;
const NORM: i32 = 7; // double only

/** Elements that are read at a time. */
const PIECE: i32 = 256;

/** Where entry `index` of dimensions lies; `layout` holds their sizes, then for each operand its strides in bytes. */
function placeIn(layout: usize, rank: i32, operand: i32, index: i32): i32 {
  const strides = layout + ((<usize>((operand + 1) * rank)) << 2);
  let place = 0;
  for (let axis = rank - 1; axis >= 0; axis--) {
    const size = axis == 0 ? index + 1 : load<i32>(layout + ((<usize>axis) << 2));
    place += (index % size) * load<i32>(strides + ((<usize>axis) << 2));
    index /= size;
  }
  return place;
}

/** Reduces one part of the results; each of them is at least one element's. */
export function reduce(job: Reduce, part: i32, parts: i32, scratch: usize): void {
  const end = shareStart(job.count, part + 1, parts);
  for (let index = shareStart(job.count, part, parts); index < end; index++) {
    const source = job.source + placeIn(job.kept, job.keptRank, 1, index);
    const result = scratch + PIECE * 8;
    let taken = 0;
    for (let row = 0; row < job.rows; row++) {
      const start = source + placeIn(job.outer, job.outerRank, 0, row);
      for (let first = 0; first < job.length; first += PIECE) {
        const count = min(PIECE, job.length - first);
        readElements(start + first * job.step, job.type, job.step, scratch, count);
        if (job.kind == DOUBLE) foldDoubles(job.operation, scratch, count, result, taken == 0);
        else foldIntegers(job.operation, job.kind == UNSIGNED, scratch, count, result, taken == 0);
        taken += count;
      }
    }
    if (job.operation == MEAN) {
      if (job.kind == DOUBLE) store<f64>(result, load<f64>(result) / <f64>taken);
      else store<i64>(result, load<i64>(result) / <i64>taken);
    } else if (job.operation == NORM) store<f64>(result, sqrt(load<f64>(result)));
    writeElements(result, job.kind, job.output + placeIn(job.kept, job.keptRank, 0, index), job.type, 0, 1);
  }
}

/** A piece in a register, and a result. */
export function reduceScratch(job: Reduce): usize {
  return PIECE * 8 + 16;
}

/** Folds a register's elements into the value at `result`, which the first ones begin. */
function foldDoubles(operation: i32, source: usize, count: i32, result: usize, begins: bool): void {
  let value = load<f64>(result);
  if (begins) value = operation == PRODUCT ? 1 : operation == MINIMUM ? Infinity : operation == MAXIMUM ? -Infinity : 0;
  const end = source + ((<usize>count) << 3);
  if (operation == SUM || operation == MEAN) for (; source < end; source += 8) value += load<f64>(source);
  else if (operation == PRODUCT) for (; source < end; source += 8) value *= load<f64>(source);
  else if (operation == MINIMUM) for (; source < end; source += 8) value = min(value, load<f64>(source));
  else if (operation == MAXIMUM) for (; source < end; source += 8) value = max(value, load<f64>(source));
  else if (operation == ABSOLUTE_SUM) for (; source < end; source += 8) value += abs(load<f64>(source));
  else for (; source < end; source += 8) value += load<f64>(source) * load<f64>(source);
  store<f64>(result, value);
}

function foldIntegers(operation: i32, unsigned: bool, source: usize, count: i32, result: usize, begins: bool): void {
  const end = source + ((<usize>count) << 3);
  let value = load<i64>(result);
  if (begins) value = operation == PRODUCT ? 1 : operation == MINIMUM || operation == MAXIMUM ? load<i64>(source) : 0;
  const flip: i64 = unsigned ? i64.MIN_VALUE : 0; // makes the signed order the unsigned one
  for (; source < end; source += 8) {
    const x = load<i64>(source);
    if (operation == SUM || operation == MEAN) value += x;
    else if (operation == PRODUCT) value *= x;
    else if (operation == MINIMUM) value = (x ^ flip) < (value ^ flip) ? x : value;
    else if (operation == MAXIMUM) value = (x ^ flip) > (value ^ flip) ? x : value;
    else if (operation == ABSOLUTE_SUM) value += x < 0 && !unsigned ? -x : x;
    else value += x * x;
  }
  store<i64>(result, value);
}

/** Running sums or products of one part of the lines. */
export function scan(job: Scan, part: i32, parts: i32, scratch: usize): void {
  const end = shareStart(job.lines, part + 1, parts);
  const total = scratch + PIECE * 8;
  for (let line = shareStart(job.lines, part, parts); line < end; line++) {
    let source = job.source + placeIn(job.layout, job.rank, 1, line);
    let output = job.output + placeIn(job.layout, job.rank, 0, line);
    if (job.kind == DOUBLE) store<f64>(total, job.operation == PRODUCT ? 1 : 0);
    else store<i64>(total, job.operation == PRODUCT ? 1 : 0);
    for (let first = 0; first < job.length; first += PIECE) {
      const count = min(PIECE, job.length - first);
      readElements(source, job.type, job.sourceStep, scratch, count);
      runOver(job, scratch, count, total);
      writeElements(scratch, job.kind, output, job.type, job.outputStep, count);
      source += count * job.sourceStep;
      output += count * job.outputStep;
    }
  }
}

export function scanScratch(job: Scan): usize {
  return PIECE * 8 + 16;
}

function runOver(job: Scan, register: usize, count: i32, total: usize): void {
  const product = job.operation == PRODUCT;
  const exclusive = job.exclusive != 0;
  if (job.kind == DOUBLE) {
    let value = load<f64>(total);
    for (const end = register + ((<usize>count) << 3); register < end; register += 8) {
      const before = value;
      value = product ? value * load<f64>(register) : value + load<f64>(register);
      store<f64>(register, exclusive ? before : value);
    }
    store<f64>(total, value);
  } else {
    let value = load<i64>(total);
    for (const end = register + ((<usize>count) << 3); register < end; register += 8) {
      const before = value;
      value = product ? value * load<i64>(register) : value + load<i64>(register);
      store<i64>(register, exclusive ? before : value);
    }
    store<i64>(total, value);
  }
}
