/**
 * Normalisations of rows on WebGPU: a workgroup for each row. Sums are float32; where squares leave its range, the row is brought into it by a
 * power of two and summed once more.
 */
import type { Operand } from "../../../graph/kernel.js";
import { dispatchOf, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import {
  type DeviceTraits,
  type Dispatch,
  type Parameter,
  webgpuFamily,
} from "../../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType, pack, packing, perWord, range, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { productOf } from "../rules/layout.js";
import { hasRowFactors, type RowNorm } from "../rules/row-norm.js";
import { workgroupReduction } from "./workgroup-reduction.js";

/** One normalisation of the rows that the source consists of. */
interface Normalization extends Omit<RowNorm, "axis"> {
  readonly name: string;
  /** Elements of a row. */
  readonly size: number;
  /** Where scale and bias hold for stretches of a row, not for its places; rows repeat after `rows`. */
  readonly channels?: { readonly rows: number; readonly perRow: number; readonly area: number };
}

/** What a normalisation binds, in order, by the names of the shader. */
const operandsOf = (job: Normalization): readonly (readonly [name: string, operand: Operand])[] =>
  Object.entries({
    source: job.source,
    skip: job.skip,
    addend: job.addend,
    factor: job.scale,
    shift: job.bias,
    result: job.output,
    total: job.sum,
    means: job.mean,
    inverses: job.inverse,
  }).flatMap(([name, operand]) => (operand === undefined ? [] : [[name, operand] as const]));

/** The storage bindings that every device has. */
const mostBindings = 8;

function normalizable(job: Normalization): true | string {
  const { size, output, source, mean, inverse } = job;
  const operands = operandsOf(job);
  for (const [, { type, contiguous }] of operands) {
    if (!isFloatType(type)) return `there is no kernel for ${type}`;
    if (!contiguous) return "an operand has gaps";
  }
  if (operands.length > mostBindings) return `it has more than ${mostBindings} operands and outputs`;
  for (const statistic of [mean, inverse]) {
    if (statistic === undefined) continue;
    if (statistic.type !== "float32") return `there is no kernel for statistics of ${statistic.type}`;
    if (source.place.size === 0) return "statistics of empty rows are asked for";
  }
  if (perWord(output.type) > 1 && size % 2 !== 0) return "rows are an odd number of halves of a word";
  return true;
}

/** Kernels of operators that normalise. */
export const normalization = webgpuFamily<Normalization>({
  accepts: normalizable,
  record(job, recorder) {
    if (job.source.place.size > 0) recorder.dispatch(normalize(job, recorder.device));
  },
});

const sizedRows = (norm: RowNorm): Normalization => ({
  ...norm,
  name: `${norm.skip === undefined ? (norm.centered ? "layer" : "rms") : norm.centered ? "skipLayer" : "skipRms"}Normalization`,
  size: productOf(norm.source.shape.slice(norm.axis)),
});

/** Those of operators that normalise rows as they are. */
export const rowNormalization = webgpuFamily<RowNorm>({
  accepts: (norm) => (hasRowFactors(norm) ? normalizable(sizedRows(norm)) : "scale or bias differ between rows"),
  record(norm, recorder) {
    if (norm.source.place.size > 0) recorder.dispatch(normalize(sizedRows(norm), recorder.device));
  },
});

/** Elements that an invocation handles at a time: four where all operands allow it, else a word of the output. */
function unitOf(job: Normalization): 1 | 2 | 4 {
  const walked = [job.source, job.skip, job.addend, job.sum, job.output];
  const factors = job.channels === undefined ? [job.scale, job.bias] : [];
  if (job.size % 4 === 0 && [...walked, ...factors].every((operand) => operand === undefined || hasFours(operand)))
    return 4;
  return perWord(job.output.type) === 1 ? 1 : 2;
}

/** True if an operand without gaps can be read and written by fours: it begins and ends at one. */
const hasFours = ({ contiguous, place }: Operand): boolean =>
  contiguous && place.offset % 4 === 0 && place.size % 4 === 0;

const lanes = ["x", "y", "z", "w"] as const;

/** What a normalisation reads and writes, in WGSL. */
interface Access {
  readonly variables: readonly Variable[];
  /** A unit of elements of an operand as a vec4f, and four numbers as a unit. */
  readonly load: (each: string, at: string) => string;
  readonly store: (each: string, operand: Operand, at: string, value: string) => string;
  /** The factors, or what is added, at place `at` of a row: one for each place, or for each channel. */
  readonly factor: (each: string) => string;
}

const vector = (values: readonly string[]): string => `vec4f(${lanes.map((_, at) => values[at] ?? "0.0").join(", ")})`;

function accessOf(job: Normalization, unit: 1 | 2 | 4): Access {
  const { channels } = job;
  const parts = range(unit);
  const byFours = (each: string): boolean =>
    unit === 4 && !["means", "inverses", ...(channels === undefined ? [] : ["factor", "shift"])].includes(each);
  const arrays = new Map(
    operandsOf(job).map(([each, operand]) => {
      const writes = ["result", "total", "means", "inverses"].includes(each);
      return [each, variable(each, operand, { writes, element: byFours(each) ? "four" : "u32" })];
    }),
  );
  const load: Access["load"] = (each, at) =>
    unit === 4
      ? arrays.get(each)!.loadFour(`(p.${each}Offset >> 2u) + ${at}`)
      : vector(parts.map((part) => arrays.get(each)!.load(`p.${each}Offset + (${at}) * ${unit}u + ${part}u`)));
  const store: Access["store"] = (each, { type }, at, value) =>
    unit === 4
      ? arrays.get(each)!.storeFour(`(p.${each}Offset >> 2u) + ${at}`, value)
      : `${each}[p.${each}Offset / ${unit}u + ${at}] = ${pack(
          type,
          parts.map((part) => `${value}.${lanes[part]}`),
        )};`;
  const perChannel = (each: string): string =>
    vector(
      parts.map((part) =>
        arrays
          .get(each)!
          .load(`p.${each}Offset + (row % p.rowsApart) * p.perRow + (at * ${unit}u + ${part}u) / p.area`),
      ),
    );
  const factor = (each: string): string => (channels === undefined ? load(each, "at") : perChannel(each));
  return { variables: [...arrays.values()], load, store, factor };
}

/** `valuesAt`, a unit of what is normalised, and `moments`: the mean of a row times a scale, and the sum of squares around what is taken away. */
function rowFunctions(
  { skip, addend, centered, mean }: Normalization,
  { load }: Access,
  unit: 1 | 2 | 4,
  threads: number,
): string {
  const wantsMean = centered || mean !== undefined;
  return `
const used = ${vector(range(unit).map(() => "1.0"))};
fn valuesAt(row: u32, at: u32) -> vec4f {
  var values = ${load("source", "row * p.units + at")};
  ${skip === undefined ? "" : `values += ${load("skip", "(row % p.skipRows) * p.units + at")};`}
  ${addend === undefined ? "" : `values += ${load("addend", "at")};`}
  return values;
}
/** The mean of a row times a scale, and the sum of squares around what is taken away. */
fn moments(row: u32, local: u32, scale: f32) -> vec2f {
  var mean = 0.0;
  ${
    wantsMean
      ? `var sum = 0.0;
  for (var at = local; at < p.units; at += ${threads}u) { sum += dot(valuesAt(row, at) * scale, used); }
  mean = sumOf(local, sum) / p.size;`
      : ""
  }
  var squares = 0.0;
  for (var at = local; at < p.units; at += ${threads}u) {
    let values = (valuesAt(row, at) * scale${centered ? " - mean" : ""}) * used;
    squares += dot(values, values);
  }
  return vec2f(mean, sumOf(local, squares));
}`;
}

/** A row's moments, in range; then each unit of it normalised, and its statistics where they are asked for. */
function rowMain(
  { centered, sum, bias, output, mean, inverse }: Normalization,
  { store, factor }: Access,
  threads: number,
): string {
  return `
@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= p.rows) { return; }
  var scale = 1.0;
  var found = moments(row, local, scale);
  if (!(found.y >= p.least && found.y <= 1e37)) {
    var largest = 0.0;
    for (var at = local; at < p.units; at += ${threads}u) {
      let sizes = abs(valuesAt(row, at));
      largest = max(largest, max(max(sizes.x, sizes.y), max(sizes.z, sizes.w)));
    }
    let exponent = clamp(bitcast<u32>(maximumOf(local, largest)) >> 23u, 1u, 253u);
    scale = min(bitcast<f32>((254u - exponent) << 23u), p.mostScale);
    found = moments(row, local, scale);
  }
  let variance = found.y / p.size + p.epsilon * scale * scale;
  // Of equal numbers whose scale takes the epsilon out of range nothing is left to divide.
  let isEqual = variance == 0.0 && p.epsilon > 0.0;
  let inverse = select(1.0 / sqrt(variance), 0.0, isEqual);
  for (var at = local; at < p.units; at += ${threads}u) {
    let values = valuesAt(row, at);
    let place = row * p.units + at;
    ${sum === undefined ? "" : store("total", sum, "place", "values")}
    var normal = (values * scale${centered ? " - found.x" : ""}) * inverse;
    normal *= ${factor("factor")};
    ${bias === undefined ? "" : `normal += ${factor("shift")};`}
    ${store("result", output, "place", "normal")}
  }
  if (local == 0u) {
    ${mean === undefined ? "" : "means[p.meansOffset + row] = bitcast<u32>(found.x / scale);"}
    ${inverse === undefined ? "" : "inverses[p.inversesOffset + row] = bitcast<u32>(select(inverse * scale, 1.0 / sqrt(p.epsilon), isEqual));"}
  }
}`;
}

/** The dispatch of a normalisation. */
export function normalize(job: Normalization, device: DeviceTraits): Dispatch {
  const { name, source, size, skip, channels, epsilon } = job;
  const unit = unitOf(job);
  const units = size / unit;
  const rows = source.place.size / size;
  const threads = Math.max(Math.min(256, Math.max(32, 2 ** Math.ceil(Math.log2(units)))), device.subgroup ?? 0);
  const access = accessOf(job, unit);
  const parameters: Record<string, Parameter> = {
    rows,
    units,
    size: { float: size },
    epsilon: { float: epsilon },
    // Below this, squares may have left the range of float32; an epsilon above them makes up for it.
    least: { float: epsilon >= 1e-30 ? 0 : 1e-30 },
    mostScale: { float: epsilon > 0 ? 2 ** Math.min(126, Math.floor(-Math.log2(epsilon) / 2)) : 2 ** 126 },
    ...(skip === undefined ? {} : { skipRows: skip.place.size / size }),
    ...(channels === undefined ? {} : { rowsApart: channels.rows, perRow: channels.perRow, area: channels.area }),
    ...Object.fromEntries(operandsOf(job).map(([each, { place }]) => [`${each}Offset`, place.offset])),
  };
  return dispatchOf({
    name,
    parts: [
      packing,
      workgroupReduction("sumOf", "sum", threads, device),
      workgroupReduction("maximumOf", "maximum", threads, device),
      ...access.variables,
    ],
    code: rowFunctions(job, access, unit, threads) + rowMain(job, access, threads),
    parameters,
    workgroups: workgroupsFor(rows, 1, device.mostWorkgroups),
  });
}
