/**
 * Attention of many queries in float16, where subgroups multiply no matrices: as in attention-prefill, a workgroup holds a tile of rows that share a key
 * head and walks the keys that any of them sees. Products are added up in pairs of float16 over short runs, and their sums in float32. What float16 cannot
 * hold is computed in float32: scores that are no finite numbers once more, from the caches, and large values as they are.
 */
import type { AttentionHalvesTile } from "../../../webgpu-kernels/tuning.js";
import type { DeviceTraits, Parameter } from "../../../webgpu-kernels/webgpu-kernel.js";
import { range, unrolled } from "../../../webgpu-kernels/wgsl.js";
import { hasEights } from "./attention-matrices.js";
import type { AttentionWork } from "./attention-parts.js";
import { type PrefillTile, scoreNames, type Sizes, tileOf } from "./attention-prefill-shader.js";

/** Eights of the rows that tiles are made for. */
const usualEights = 16;

/** What weights are multiplied by: small ones, and what they are multiplied with, are further from subnormal numbers, which a device may take for zero. */
const weightScale = 32;

/** Values from 32 on have the highest bit of the exponent and one of the two behind it: a run of 32 weights times such values may be beyond float16. */
const largeWords = "(words & ((words << vec4u(1u)) | (words << vec4u(2u))) & vec4u(0x40004000u))";

/** Sizes in eights of elements; `run` of those that are staged at once are added up in float16. */
interface HalvesSizes extends Sizes {
  readonly run: number;
}

/** The greatest divisor of a number up to so many. */
const divisorOf = (number: number, most: number): number =>
  range(most)
    .map((at) => most - at)
    .find((count) => number % count === 0)!;

function sizesOf(
  { query, value }: AttentionWork,
  { lines, sides, rowsEach, keysEach, chunk, run, step }: AttentionHalvesTile,
  { subgroup }: DeviceTraits,
): HalvesSizes {
  const across = Math.ceil(value.size / 8 / sides);
  const most = rowsEach * Math.ceil(usualEights / sides);
  let each = rowsEach;
  while (each > 1 && each * across > most) each /= 2;
  const rows = lines * each;
  const keys = sides * keysEach;
  const staged = divisorOf(query.size / 8, chunk);
  const pitch = across * sides;
  let valueKeys = Math.min(step, keys);
  while (valueKeys > 4 && valueKeys * pitch > (rows + keys) * staged) valueKeys /= 2;
  return {
    sides,
    lines,
    each,
    rows,
    keysEach,
    keys,
    chunk: staged,
    run: divisorOf(staged, run),
    step: valueKeys,
    across,
    pitch,
    weightsPitch: rows + 1,
    staged: Math.max((rows + keys) * staged, valueKeys * pitch),
    rowTile: 0,
    isShuffled: subgroup !== undefined && subgroup >= sides,
  };
}

const bytesOf = (sizes: HalvesSizes): number => {
  const { rows, keys, sides, weightsPitch, staged, isShuffled } = sizes;
  return 16 * staged + 2 * keys * weightsPitch + 8 * rows + 16 + (isShuffled ? 0 : 4 * rows * sides);
};

function sizesFor(work: AttentionWork, device: DeviceTraits): HalvesSizes | undefined {
  const { query, key, value, mask, padding, softcap } = work;
  if (!device.f16 || mask !== undefined || padding !== undefined || softcap !== 0) return undefined;
  for (const rows of [query, key, value] as const)
    if (rows.type !== "float16" || rows.size % 8 !== 0 || !hasEights(rows)) return undefined;
  return device.tuning.manyRows.attentionHalvesTiles
    .map((tile) => sizesOf(work, tile, device))
    .find((sizes) => bytesOf(sizes) <= device.workgroupBytes && sizes.lines * sizes.sides <= device.mostInvocations);
}

const letters = ["x", "y", "z", "w"] as const;
const pair = (words: string): string => `bitcast<vec2<f16>>(${words})`;

/** The least power of two that queries are multiplied by: numbers that it makes subnormal are small beside others. What float16 cannot hold then is computed anew. */
const leastPower = -8;

/** The scale in two parts: queries are multiplied by a power of two, which rounds no numbers but subnormal ones, and scores by the rest. */
export function scaleInHalves(scale: number): Readonly<Record<"power" | "rest", Parameter>> {
  const power = 2 ** Math.max(leastPower, Math.min(15, Math.floor(Math.log2(Math.abs(scale) || 1))));
  return { power: { float: power }, rest: { float: scale / power } };
}

/** The tile of a work, with what float16 does in another way; undefined where the device does not compute it so. */
export function halvesTile(work: AttentionWork, device: DeviceTraits): PrefillTile | undefined {
  const sizes = sizesFor(work, device);
  if (sizes === undefined) return undefined;
  const { lines, sides, each, rows, keys, keysEach, chunk, run, step, across, pitch, weightsPitch } = sizes;
  const tile = { ...tileOf(work, sizes), quads: work.query.size / 8, valueQuads: work.value.size / 8 };
  const scores = scoreNames(tile);
  const fours = keysEach / 4;
  const addRun = (
    eight: string,
  ): string => `${unrolled(each, (r) => unrolled(keysEach, (j) => `var h${r}_${j} = vec2<f16>();`, " "))}
      for (var own = 0u; own < ${run}u; own++) {
        let eight = ${eight};
        ${unrolled(keysEach, (j) => `let k${j} = staged[eight * ${keys}u + ${rows * chunk + j * sides}u + x];`)}
        ${unrolled(each, (r) => `{ let q = staged[eight * ${rows}u + ${r * lines}u + y]; ${letters.map((letter) => `{ let a = ${pair(`q.${letter}`)}; ${unrolled(keysEach, (j) => `h${r}_${j} = fma(a, ${pair(`k${j}.${letter}`)}, h${r}_${j});`, " ")} }`).join(" ")} }`)}
      }
      ${unrolled(each, (r) => unrolled(fours, (c) => `s${r}_${c} += vec4f(${unrolled(4, (i) => `f32(h${r}_${4 * c + i}.x + h${r}_${4 * c + i}.y)`, ", ")});`, " "))}`;
  const again = `if ((max(max(bits.x, bits.y), max(bits.z, bits.w)) & 0x7f800000u) == 0x7f800000u) {
        var again = array<vec4f, ${scores.length}>(${scores.join(", ")});
        for (var at = 0u; at < ${scores.length}u; at++) {
          let asked = min(first + at / ${fours}u * ${lines}u + y, groupRows - 1u);
          let query = queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group);
          for (var i = 0u; i < 4u; i++) {
            let key = u32(clamp(front + i32(at % ${fours}u * ${4 * sides}u + 4u * x + i), low, high - 1));
            again[at][i] = exactScore(query, keyStart(sample, keyHead, key));
          }
        }
        ${scores.map((name, at) => `${name} = again[${at}];`).join(" ")}
      }`;
  const inFours = (
    body: (at: number, a: number) => string,
  ): string => `for (var four = 0u; four < ${step / 4}u; four++) {
        ${unrolled(each, (r) => `let p${r} = bitcast<vec4<f16>>(weights[(part * ${step / 4}u + four) * ${weightsPitch}u + ${r * lines}u + y]);`)}
        ${unrolled(4, (at) => unrolled(across, (a) => `{ let v = staged[(four * 4u + ${at}u) * ${pitch}u + ${a * sides}u + x]; ${body(at, a)} }`))}
      }`;
  const values = `if (atomicLoad(&large) == 0u) {
        ${unrolled(each, (r) => unrolled(across, (a) => letters.map((letter) => `var o${r}_${a}${letter} = vec2<f16>();`).join(" "), " "))}
        ${inFours((at, a) => letters.map((letter) => `{ let b = ${pair(`v.${letter}`)}; ${unrolled(each, (r) => `o${r}_${a}${letter} = fma(vec2<f16>(p${r}[${at}]), b, o${r}_${a}${letter});`, " ")} }`).join(" "))}
        ${unrolled(each, (r) => unrolled(across, (a) => `sum${r}_${2 * a} += vec4f(vec4<f16>(o${r}_${a}x, o${r}_${a}y)); sum${r}_${2 * a + 1} += vec4f(vec4<f16>(o${r}_${a}z, o${r}_${a}w));`, " "))}
      } else {
        ${inFours((at, a) => `let low_ = vec4f(bitcast<vec4<f16>>(v.xy)); let high_ = vec4f(bitcast<vec4<f16>>(v.zw)); ${unrolled(each, (r) => `sum${r}_${2 * a} += f32(p${r}[${at}]) * low_; sum${r}_${2 * a + 1} += f32(p${r}[${at}]) * high_;`, " ")}`)}
      }`;
  return {
    ...tile,
    halves: {
      memory: `
var<workgroup> staged: array<vec4u, ${sizes.staged}>;
var<workgroup> weights: array<vec2u, ${(keys / 4) * weightsPitch}>;
var<workgroup> large: atomic<u32>;
fn scaled(words: vec4u) -> vec4u {
  let power = vec4<f16>(f16(p.power));
  return vec4u(bitcast<vec2u>(bitcast<vec4<f16>>(words.xy) * power), bitcast<vec2u>(bitcast<vec4<f16>>(words.zw) * power));
}
fn exactScore(query: u32, key: u32) -> f32 {
  var sum = 0.0;
  for (var eight = 0u; eight < ${tile.quads}u; eight++) {
    let a = queryHalves(query, eight);
    let b = keyHalves(key, eight);
    for (var at = 0u; at < 4u; at++) { sum += dot(unpack2x16float(a[at]), unpack2x16float(b[at])); }
  }
  return sum * p.scale;
}`,
      begin: "if (local == 0u) { atomicStore(&large, 0u); }",
      put: { query: (loaded) => `scaled(${loaded})`, key: (loaded) => loaded },
      products:
        run === chunk
          ? addRun("own")
          : `for (var begun = 0u; begun < ${chunk / run}u; begun++) { ${addRun(`begun * ${run}u + own`)} }`,
      scaled: scores.map((name) => `${name} *= p.rest;`).join(" "),
      again,
      putValue: (index, loaded) => `let words = select(vec4u(), ${loaded}, isSeen);
      staged[${index}] = words;
      if (any(${largeWords} != vec4u())) { atomicStore(&large, 1u); }`,
      values,
      weightScale,
    },
  };
}
