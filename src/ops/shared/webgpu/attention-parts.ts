/**
 * What attention's shaders are made of: rows of queries, keys and values read four elements at a time wherever they lie, which keys a query
 * sees, and what is done to a score. Functions in WGSL with the bindings and parameters that they need; no dispatch.
 */
import type { Operand } from "../../../graph/kernel.js";
import { type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import type { Temporary } from "../../../webgpu-kernels/webgpu-kernel.js";
import { fourOf, isFourType, packFour, perWord, range, pack, unrolled } from "../../../webgpu-kernels/wgsl.js";
import { functionsPart } from "./functions.js";
import type { Heads } from "./heads.js";
import { type Packed, queriesPart, tokenAt, unserved } from "./packed-batch.js";
import { hidden } from "./score-marks.js";
import { ownTable, type Table, tableVariable } from "./tables.js";

/** Rows in pages: which block holds a row is data. */
export interface Pages {
  readonly tables: Operand;
  /** How far the tables of samples and of heads lie apart. */
  readonly tableSample: number;
  readonly tableHead: number;
  readonly blockSize: number;
  /** Elements between blocks. */
  readonly block: number;
  /** A row is cut into pieces of so many elements, whose starts lie `pieceStep` apart; 0 where it lies together. */
  readonly piece: number;
  readonly pieceStep: number;
  /** float32 [blocks, block_size, heads]: what rows of bytes are multiplied by. */
  readonly scales: Operand | undefined;
  readonly scaleHeads: number;
}

/** Keys or values: `sample` is 0 for pages, whose rows count from their block. */
export interface CacheRows extends Heads {
  readonly pages?: Pages;
}

/** What is added to scores, [batch, heads, queries, keys]; strides in elements, 0 broadcasts. Keys from `length` on are hidden. */
export interface MaskPlace {
  readonly of: Operand;
  readonly strides: readonly [sample: number, head: number, query: number, key: number];
  readonly length: number;
}

/** Keys that are padding: a number is added to their scores. */
export interface Padding {
  readonly of: Operand;
  /** An entry for each key, not positive where it is padding; or one for each sample, from which on keys are. */
  readonly kind: "entries" | "lengths";
  readonly sample: number;
  readonly query: number;
  readonly added: number;
}

/** Valid keys of each sample, this step's included: an index plus a number. */
interface Lengths {
  readonly of: Operand;
  /** Where shaders read them, if not as an array of their own. */
  readonly table?: Table | undefined;
  readonly sample: number;
  readonly head: number;
  readonly add: number;
}

/** One attention. */
export interface AttentionWork {
  readonly query: Heads;
  readonly key: CacheRows;
  readonly value: CacheRows;
  readonly output: Heads;
  /** Where the batch is packed; query and output have a batch of 1 then. */
  readonly packed?: Packed | undefined;
  /** Undefined: all rows of the keys are valid. */
  readonly lengths: Lengths | undefined;
  /** Keys before the first query; undefined where the lengths tell, of which the queries are the last. */
  readonly past: number | undefined;
  readonly causal: boolean;
  /** How far back and ahead of its own place a query looks; −1 for no bound. */
  readonly left: number;
  readonly right: number;
  /** Keys that a query sees, counted back from the last that it may see; −1 for all. */
  readonly window: number;
  readonly mask: MaskPlace | undefined;
  readonly padding?: Padding | undefined;
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
  /** A logit for each head that takes part in the sum and has no value; 0 for each without an operand. */
  readonly sink: Operand | "zero" | undefined;
}

/** Quads of elements: four at a time, the last one filled up. */
export const quadCount = (size: number): number => Math.ceil(size / 4);

/** True for types whose rows attention reads. */
export const isRowType = isFourType;

/** True if rows begin, end and lie apart by fours of elements. */
export const liesByFours = ({ offset, size, sample, head, row, pages }: CacheRows): boolean =>
  [offset, size, sample, head, row, pages?.block ?? 0, pages?.pieceStep ?? 0].every((n) => n % 4 === 0);

/** The WGSL type of four elements of rows as they lie in memory, where they do so by fours; of their values where not. */
export const wordsType = (rows: CacheRows): string => (liesByFours(rows) ? fourOf(rows.type).element : "vec4f");

/**
 * Functions that read rows: `nameStart(sample, head, row)` is where a row begins, `nameQuad(start, quad)` four elements of it, `nameValues(nameWords(start, quad))`
 * the same in two steps, and `nameFactor(sample, head, row)` what bytes are multiplied by. By eights there is `nameHalves(start, eight)` in place of `nameQuad`: the words of eight
 * float16, of rows that lie so. `rowAt` is where `row` of `sample` stands among the rows that lie there.
 */
export function rowsPart(
  name: string,
  rows: CacheRows,
  { width = 4, rowAt = "row", writes = false }: { width?: 4 | 8; rowAt?: string; writes?: boolean } = {},
): ShaderPart {
  const { of, type, offset, size, sample, head, row, pages } = rows;
  const aligned = liesByFours(rows);
  const array = variable(`${name}s`, of, {
    type,
    writes,
    element: width === 8 ? "vec4<u32>" : aligned ? "four" : "u32",
  });
  const piece = pages?.piece ?? 0;
  const place = (element: string): string =>
    piece === 0 ? `start + ${element}` : `start + (${element}) / ${piece}u * p.${name}Piece + (${element}) % ${piece}u`;
  const one = (at: number): string =>
    `select(0.0, f32(${array.load(place(`min(4u * quad + ${at}u, ${size - 1}u)`))}), 4u * quad + ${at}u < ${size}u)`;
  const quads = `
fn ${name}Words(start: u32, quad: u32) -> ${wordsType(rows)} { return ${aligned ? array.at(`(${place("4u * quad")}) / 4u`) : `vec4f(${unrolled(4, one, ", ")})`}; }
fn ${name}Values(words: ${wordsType(rows)}) -> vec4f { return ${aligned ? fourOf(type).unpack("words") : "words"}; }
fn ${name}Quad(start: u32, quad: u32) -> vec4f { return ${name}Values(${name}Words(start, quad)); }`;
  const tables = pages && variable("tables", pages.tables);
  const slot = `let block = u32(${tables === undefined ? "" : tables.loadIndex("p.tableOffset + sample * p.tableSample + head * p.tableHead + row / p.blockSize")});`;
  const start =
    pages === undefined
      ? `return p.${name}Offset + sample * p.${name}Sample + head * p.${name}Head + ${rowAt} * p.${name}Row;`
      : `${slot} return p.${name}Offset + block * p.${name}Block + row % p.blockSize * p.${name}Row + head * p.${name}Head;`;
  const scales = pages?.scales && variable(`${name}Scales`, pages.scales);
  const factor =
    scales === undefined
      ? "return 1.0;"
      : `${slot} return ${scales.load(`p.${name}ScaleOffset + (block * p.blockSize + row % p.blockSize) * p.scaleHeads + head % p.scaleHeads`)};`;
  return {
    uses: [array, scales, tables],
    code: `
fn ${name}Start(sample: u32, head: u32, row: u32) -> u32 { ${start} }
${width === 8 ? `fn ${name}Halves(start: u32, eight: u32) -> vec4u { return ${array.at("start / 8u + eight")}; }` : quads}
fn ${name}Factor(sample: u32, head: u32, row: u32) -> f32 { ${factor} }`,
    parameters: {
      [`${name}Offset`]: offset,
      [`${name}Sample`]: sample,
      [`${name}Head`]: head,
      [`${name}Row`]: row,
      ...(pages === undefined ? {} : { [`${name}Block`]: pages.block, [`${name}Piece`]: pages.pieceStep }),
      ...(pages?.scales === undefined ? {} : { [`${name}ScaleOffset`]: pages.scales.place.offset }),
      ...(pages === undefined ? {} : tableParameters(pages)),
    },
  };
}

/** Queries as `rowsPart` has rows. In a packed batch, `visiblePart` tells where those of a sample begin. */
export const queryPart = (work: Pick<AttentionWork, "query" | "packed">, width: 4 | 8 = 4): ShaderPart =>
  rowsPart("query", work.query, { width, rowAt: tokenAt(work) });

/** Where the tables of pages are; keys and values have them in common. */
const tableParameters = ({
  tables,
  tableSample,
  tableHead,
  blockSize,
  scales,
  scaleHeads,
}: Pages): Record<string, number> => ({
  tableOffset: tables.place.offset,
  tableSample,
  tableHead,
  blockSize,
  ...(scales === undefined ? {} : { scaleHeads }),
});

/**
 * `visible(sample, head, query)`: the keys that a query of a sample's key head may see for its place, from x to y; none where y ≤ x, nor for samples
 * that are not served. With it come `queriesOf(sample)` and, in a packed batch, `firstQuery(sample)`.
 */
export function visiblePart(work: Omit<AttentionWork, "output" | "sink">): ShaderPart {
  const { packed, key, lengths, past, causal, left, right, window } = work;
  const entry = "p.lengthOffset + sample * p.lengthSample + head * p.lengthHead";
  const table = lengths && (lengths.table ?? ownTable("lengths", lengths.of));
  const array = table && tableVariable(table);
  const valid = array === undefined ? "i32(p.keys)" : `${array.loadIndex(entry)} + bitcast<i32>(p.lengthAdd)`;
  const code = `
fn visible(sample: u32, head: u32, query: u32) -> vec2i {
  ${unserved(packed, "vec2i()")}
  let valid = ${valid};
  let position = i32(query) + ${past === undefined ? "valid - i32(queriesOf(sample))" : "i32(p.past)"};
  var begin = 0;
  var end = valid;
  ${causal ? "end = min(end, position + 1);" : ""}
  ${right >= 0 ? "end = min(end, position + 1 + i32(p.right));" : ""}
  ${left >= 0 ? "begin = max(begin, position - i32(p.left));" : ""}
  ${window >= 0 ? "begin = max(begin, end - i32(p.window));" : ""}
  return vec2i(begin, end);
}`;
  const bounded = (size: number): number => Math.min(Math.max(size, 0), 2 ** 29);
  return {
    uses: [queriesPart(work), array],
    code,
    parameters: {
      keys: key.rows,
      past: past ?? 0,
      left: bounded(left),
      right: bounded(right),
      window: bounded(window),
      ...(lengths === undefined || table === undefined
        ? {}
        : {
            lengthOffset: table.offset,
            lengthSample: lengths.sample,
            lengthHead: lengths.head,
            lengthAdd: lengths.add,
          }),
    },
  };
}

/** `finished(score, sample, head, query, key)`: a visible key's score after softcap, padding and mask, or its mark. */
export function scorePart({ mask, padding, softcap }: AttentionWork): ShaderPart {
  const capped = softcap === 0 ? "score" : "p.softcap * hyperbolicTangent(score / p.softcap)";
  const padded = padding === undefined ? "" : " + select(0.0, p.padding, isPadding(sample, query, key))";
  return {
    uses: [
      maskPart(mask, `${capped}${padded}`),
      padding && paddingPart(padding),
      functionsPart("boundedScore", ...(softcap === 0 ? [] : (["hyperbolicTangent"] as const))),
    ],
    parameters: softcap === 0 ? {} : { softcap: { float: softcap } },
  };
}

function maskPart(mask: MaskPlace | undefined, score: string): ShaderPart {
  const head = "fn finished(score: f32, sample: u32, head: u32, query: u32, key: u32) -> f32";
  if (mask === undefined) return { code: `${head} { return boundedScore(${score}); }` };
  const { of, strides, length } = mask;
  const array = variable("mask", of);
  // Whether a key is hidden is told by bits: shaders need not know infinities.
  const isHidden =
    of.type === "bool"
      ? `${array.load("at")} == 0u`
      : of.type === "float32"
        ? `${array.at("at")} == 0xff800000u`
        : `extractBits(${array.at("at / 2u")}, 16u * (at % 2u), 16u) == ${of.type === "float16" ? "0xfc00u" : "0xff80u"}`;
  return {
    uses: [array],
    code: `
${head} {
  let at = p.maskOffset + sample * p.maskSample + head * p.maskHead + query * p.maskQuery + min(key, p.maskLength - 1u) * p.maskKey;
  let value = boundedScore(${score}${of.type === "bool" ? "" : ` + ${array.load("at")}`});
  return select(value, ${hidden}, key >= p.maskLength || ${isHidden});
}`,
    parameters: {
      maskOffset: of.place.offset,
      maskSample: strides[0],
      maskHead: strides[1],
      maskQuery: strides[2],
      maskKey: strides[3],
      maskLength: length,
    },
  };
}

function paddingPart({ of, kind, sample, query, added }: Padding): ShaderPart {
  const array = variable("paddings", of);
  const at = "p.paddingOffset + sample * p.paddingSample + query * p.paddingQuery";
  const entry = array.loadIndex(kind === "lengths" ? at : `${at} + key`);
  return {
    uses: [array],
    code: `fn isPadding(sample: u32, query: u32, key: u32) -> bool { return ${kind === "lengths" ? `i32(key) >= ${entry}` : `${entry} <= 0`}; }`,
    parameters: {
      paddingOffset: of.place.offset,
      paddingSample: sample,
      paddingQuery: query,
      padding: { float: added },
    },
  };
}

/** `sinkOf(head)`: the logit of a head's sink, which takes part where `hasSink`. */
export function sinkPart({ sink }: AttentionWork): ShaderPart {
  if (sink === undefined || sink === "zero") return { code: `fn sinkOf(head: u32) -> f32 { return 0.0; }` };
  const sinks = variable("sinks", sink);
  return {
    uses: [sinks, functionsPart("boundedScore")],
    code: `fn sinkOf(head: u32) -> f32 { return boundedScore(${sinks.load("p.sinkOffset + head")}); }`,
    parameters: { sinkOffset: sink.place.offset },
  };
}

/** `writeQuad(sample, head, row, quad, values)`: writes four elements of the output, whole words of them, for samples that are served; with `weighedMean`. */
export function outputPart({ output, packed }: Pick<AttentionWork, "output" | "packed">): ShaderPart {
  const { of, type, offset, size, sample, head, row } = output;
  const width = perWord(type);
  const aligned = [offset, size, sample, head, row].every((n) => n % 4 === 0);
  const outputs = variable("outputs", of, { type, element: aligned ? "four" : "u32", writes: true });
  const values = range(4).map((at) => `values[${at}]`);
  const lines = aligned
    ? [outputs.set("start / 4u", packFour(type, values))]
    : range(4 / width).map(
        (at) =>
          `if (4u * quad + ${at * width}u < ${size}u) { ${outputs.set(`(start + ${at * width}u) / ${width}u`, pack(type, values.slice(at * width, (at + 1) * width)))} }`,
      );
  return {
    uses: [outputs, functionsPart("weighedMean")],
    code: `
fn writeQuad(sample: u32, head: u32, row: u32, quad: u32, values: vec4f) {
  ${unserved(packed, "")}
  let start = p.outputOffset + sample * p.outputSample + head * p.outputHead + ${tokenAt({ packed })} * p.outputRow + 4u * quad;
  ${lines.join("\n  ")}
}`,
    parameters: { outputOffset: offset, outputSample: sample, outputHead: head, outputRow: row },
  };
}

/** Scratch memory as a variable. */
export const scratch = (name: string, of: Temporary, writes: boolean): ShaderPart =>
  variable(name, of, { element: "vec4f", writes });
