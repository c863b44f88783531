/**
 * GroupQueryAttention's quantized caches on WebGPU. Fresh rows become integers; the scales of keys are multiplied into the queries and those of values into the
 * result, so that attention reads integers. Rows of 4 bits are spread to bytes for each step, beside the cache.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type ShaderPart, variable } from "../../webgpu-kernels/shader-part.js";
import type { WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { type Heads, headsOf } from "../shared/webgpu/heads.js";
import type { GroupQueryAttention } from "./op.js";

/** How a cache is quantized. */
interface Levels {
  readonly bits: 4 | 8;
  readonly keyScale: Operand;
  readonly valueScale: Operand;
  readonly perChannel: boolean;
}

/** The quantization of a call; undefined for caches of floats, a sentence where there is no kernel. */
export function levelsOf({
  inputs: { k_scale: keyScale, v_scale: valueScale },
  attrs,
}: Pick<CallOf<typeof GroupQueryAttention>, "inputs" | "attrs">): Levels | string | undefined {
  if (attrs.kv_cache_bit_width === 0) return undefined;
  if (keyScale === undefined || valueScale === undefined) return "a scale is missing";
  for (const scale of [keyScale, valueScale])
    if (!scale.contiguous || !isFloatType(scale.type)) return "scales have gaps, or are no floats";
  return {
    bits: attrs.kv_cache_bit_width === 8 ? 8 : 4,
    keyScale,
    valueScale,
    perChannel: attrs.k_quant_type === "PER_CHANNEL",
  };
}

/** Where an element of [batch, heads, rows, `width`] is. */
const placed = (width: string): string => `  let column = element % ${width};
  let line = element / ${width};
  let row = line % p.rows;
  let head = line / p.rows % p.heads;
  let sample = line / p.rows / p.heads;`;

const startOf = "p.offset + sample * p.sampleStep + head * p.headStep + row * p.rowStep";

const placeOf = ({ offset, sample, head, row, heads, rows, size }: Heads): Record<string, number> => ({
  offset,
  sampleStep: sample,
  headStep: head,
  rowStep: row,
  heads,
  rows,
  size,
});

/** The scale of a channel of a key head. */
function scalePart(scale: Operand, { perChannel }: Levels): ShaderPart {
  const scales = variable("scales", scale);
  const at = perChannel ? "p.scaleOffset + head * p.size + column" : "p.scaleOffset";
  return {
    uses: [scales],
    code: `fn scaleOf(head: u32, column: u32) -> f32 { return ${scales.load(at)}; }`,
    parameters: { scaleOffset: scale.place.offset },
  };
}

/** Fresh rows as the cache holds them, without gaps. */
export function quantized(fresh: Heads, levels: Levels, scale: Operand, recorder: WebgpuRecorder): Heads {
  const { batch, heads, rows, size } = fresh;
  const { bits } = levels;
  const width = bits === 8 ? size : Math.ceil(size / 2);
  const output = recorder.between(bits === 8 ? "int8" : "uint8", [batch, heads, rows, width]);
  const source = variable("source", fresh.of, { type: fresh.type });
  const most = 2 ** (bits - 1);
  const level = {
    code: `fn levelOf(start: u32, head: u32, column: u32) -> i32 {
  if (column >= p.size) { return 0; }
  let scale = scaleOf(head, column);
  let value = round(${source.load("start + column")} * select(1.0 / scale, 1.0, scale == 0.0));
  if (isNan(value)) { return 0; }
  return i32(clamp(value, -${most}.0, ${most - 1}.0));
}`,
  };
  const pair = `  return u32(levelOf(start, head, 2u * column) + 8) | (u32(levelOf(start, head, 2u * column + 1u) + 8) << 4u);`;
  recorder.dispatch(
    elementWords(recorder.device, {
      name: "quantizeRows",
      output,
      parts: [functionsPart("isNan"), source, scalePart(scale, levels), level],
      parameters: { ...placeOf(fresh), width },
      body: `${placed("p.width")}
  let start = ${startOf};
${bits === 8 ? "  return levelOf(start, head, column);" : pair}`,
    }),
  );
  return headsOf(output, heads);
}

/** Rows of a cache as bytes of `size` levels: as they lie, or spread. */
export function levelRows(cache: Heads, size: number, { bits }: Levels, recorder: WebgpuRecorder): Heads {
  if (bits === 8) return cache;
  const { batch, heads, rows } = cache;
  const output = recorder.between("int8", [batch, heads, rows, size]);
  const source = variable("source", cache.of, { type: "uint8" });
  recorder.dispatch(
    elementWords(recorder.device, {
      name: "spreadLevels",
      output,
      parts: [source],
      parameters: { ...placeOf(cache), size },
      body: `${placed("p.size")}
  let pair = ${source.load(`${startOf} + column / 2u`)};
  return i32((u32(pair) >> (4u * (column & 1u))) & 15u) - 8;`,
    }),
  );
  return headsOf(output, heads);
}

/** Query heads times the scales of the key heads that they share, in float32. */
export function scaledQueries(query: Heads, kvHeads: number, levels: Levels, recorder: WebgpuRecorder): Heads {
  const { batch, heads, rows, size } = query;
  const output = recorder.between("float32", [batch, heads, rows, size]);
  const source = variable("source", query.of, { type: query.type });
  recorder.dispatch(
    elementWords(recorder.device, {
      name: "scaleQueries",
      output,
      parts: [source, scalePart(levels.keyScale, levels)],
      parameters: { ...placeOf(query), group: heads / kvHeads },
      body: `${placed("p.size")}
  return ${source.load(`${startOf} + column`)} * scaleOf(head / p.group, column);`,
    }),
  );
  return headsOf(output, heads);
}

/** Results of [batch, rows, heads · size] in float32 times the scales of values, as the output has them. */
export function scaleResults(
  results: Operand,
  output: Operand,
  { heads, size, group }: { readonly heads: number; readonly size: number; readonly group: number },
  levels: Levels,
  recorder: WebgpuRecorder,
): void {
  const source = variable("source", results);
  recorder.dispatch(
    elementWords(recorder.device, {
      name: "scaleResults",
      output,
      parts: [source, scalePart(levels.valueScale, levels)],
      parameters: { heads, size, group },
      body: `  return ${source.load("element")} * scaleOf(element / p.size % p.heads / p.group, element % p.size);`,
    }),
  );
}
