/**
 * WGSL that the dispatches of SampleToken share: scores as whole numbers in the same order, so that NaN needs no luck; the options of a draw
 * and its noise; the largest of all lanes; and where the likeliest end. Bindings and parameters are webgpu.ts's.
 */
import { mostNucleus, threefryParity, threefryRotations } from "../../base/token-noise.js";
import type { ElementType } from "../../tensor/element-type.js";
import { read } from "../../webgpu-kernels/wgsl.js";

export const lanes = 256;

/** Tokens are told apart by so many bits where scores are equal. */
export const tokenBits = 24;

/** Where the options of a text's draw are read: expressions of words. */
export interface Options {
  readonly temperature: string;
  readonly topK: readonly [low: string, high: string];
  readonly topP: string;
  readonly minP: string;
  readonly penalty: string;
  readonly seed: readonly [low: string, high: string];
  readonly counter: string;
}

/** Scores and options. All invocations of a workgroup read the options alike. */
export const scores = (type: ElementType, { temperature, topK, topP, minP, penalty }: Options): string => `
// Where −infinity and infinity stand among ordered scores: what is finite lies between. NaN is 0.
const below = 0x007fffffu;
const above = 0xff800000u;

fn ordered(score: f32) -> u32 {
  var bits = bitcast<u32>(score);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0u; }
  if (bits == 0x80000000u) { bits = 0u; }
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}
fn score(order: u32) -> f32 { return bitcast<f32>(select(~order, order & 0x7fffffffu, order >= 0x80000000u)); }
fn logit(text: u32, token: u32) -> u32 {
  let given = ${read(type, "logits", "p.logits + (text * p.rows + p.rows - 1u) * p.vocabulary + token")};
  let penalty = bitcast<f32>(${penalty});
  if (penalty == 1.0 || !isSeen(text, token)) { return ordered(given); }
  return ordered(given * select(penalty, 1.0 / penalty, given > 0.0));
}
fn seenWord(text: u32, word: u32) -> u32 { return seen[p.seen + text * p.seenStep + word]; }
fn isSeen(text: u32, token: u32) -> bool { return ((seenWord(text, token >> 5u) >> (token & 31u)) & 1u) == 1u; }

fn heat(text: u32) -> f32 { return bitcast<f32>(${temperature}); }
fn isGreedy(text: u32) -> bool { return !(heat(text) >= 0x1p-126f); }
fn share(text: u32) -> f32 { return bitcast<f32>(${minP}); }
fn nucleus(text: u32) -> f32 { return bitcast<f32>(${topP}); }
// How many of the likeliest may be drawn; 0 for all.
fn likeliest(text: u32) -> u32 {
  let given = ${topK[0]};
  let count = select(given, 0u, ${topK[1]} != 0u || given >= p.vocabulary);
  if (!(nucleus(text) < 1.0)) { return count; }
  return min(select(count, ${mostNucleus}u, count == 0u), min(${mostNucleus}u, p.vocabulary));
}`;

/** The noise of a token: `base/token-noise.ts`, in float32. */
export const noise = ({ seed: [low, high], counter }: Options): string => `
fn noise(text: u32, token: u32) -> f32 {
  let keys = array<u32, 3>(${low}, ${high}, ${low} ^ ${high} ^ ${threefryParity}u);
  var x = ${counter} + keys[0];
  var y = (token >> 1u) + keys[1];
${Array.from({ length: 5 }, (_, group) =>
  [
    ...[0, 1, 2, 3].map((round) => {
      const turn = threefryRotations[(4 * group + round) % 8];
      return `  x += y; y = ((y << ${turn}u) | (y >> ${32 - turn}u)) ^ x;`;
    }),
    `  x += keys[${(group + 1) % 3}]; y += keys[${(group + 2) % 3}] + ${group + 1}u;`,
  ].join("\n"),
).join("\n")}
  let word = select(x, y, (token & 1u) == 1u);
  // −ln(1 − v) with v = (word + ½) / 2³²: by the series of the area tangent where v is small, which keeps all its digits.
  let v = (f32(word) + 0.5) * 0x1p-32f;
  let s = v / (2.0 - v);
  let q = s * s;
  let series = 2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q / 13.0))))));
  let straight = -log((f32(~word) + 0.5) * 0x1p-32f);
  return -log(select(series, straight, word >= 0x80000000u));
}`;

/** The largest of what all lanes have, as [order, token]; of equal ones the first token. */
export const largest: string = `
var<workgroup> bests: array<vec2u, ${lanes}>;
fn precedes(one: vec2u, other: vec2u) -> bool { return one.x > other.x || (one.x == other.x && one.y < other.y); }
fn largest(lane: u32, own: vec2u) -> vec2u {
  bests[lane] = own;
  workgroupBarrier();
  for (var step = ${lanes / 2}u; step > 0u; step >>= 1u) {
    if (lane < step && precedes(bests[lane + step], bests[lane])) { bests[lane] = bests[lane + step]; }
    workgroupBarrier();
  }
  return workgroupUniformLoad(&bests[0]);
}`;

/**
 * The place of the last of the largest entries, where `placeOf(text, first, at)` is [order, rank of the token]: found digit by digit, by adding up
 * what the entries with each are worth. No two places are the same. `edge` counts to `keep`; `nucleusEdge` goes, among those up to an edge,
 * as far as their share of the probability is that of the nucleus: in whole numbers, whose sum no order of adding changes.
 */
export const edge: string = `
fn rank(token: u32) -> u32 { return ~token & ${2 ** tokenBits - 1}u; }
fn isBefore(place: vec2u, last: vec2u) -> bool { return place.x > last.x || (place.x == last.x && place.y >= last.y); }
var<workgroup> bins: array<atomic<u32>, ${lanes}>;
var<workgroup> sums: array<u32, ${lanes}>;
var<workgroup> chosen: vec2u;

// What an entry is worth: one, or its probability in units of which those of all entries are less than 2³².
struct Worth { isOne: bool, last: vec2u, top: u32, scale: f32 }
fn worthOf(text: u32, place: vec2u, worth: Worth) -> u32 {
  if (worth.isOne) { return 1u; }
  if (place.x <= below || !isBefore(place, worth.last)) { return 0u; }
  return u32(exp(max((score(place.x) - score(worth.top)) / heat(text), -104.0)) * worth.scale);
}

fn edgeBy(text: u32, first: u32, lane: u32, count: u32, enough: u32, worth: Worth) -> vec2u {
  var mask = vec2u(0u);
  var last = vec2u(0u);
  var rest = enough;
  for (var digit = 0u; digit < 7u; digit++) {
    let isOrder = digit < 4u;
    let shift = select(48u - 8u * digit, 24u - 8u * digit, isOrder);
    atomicStore(&bins[lane], 0u);
    workgroupBarrier();
    for (var at = lane; at < count; at += ${lanes}u) {
      let place = placeOf(text, first, at);
      if (all((place & mask) == last)) {
        atomicAdd(&bins[(select(place.y, place.x, isOrder) >> shift) & 255u], worthOf(text, place, worth));
      }
    }
    workgroupBarrier();
    // What entries with this digit or a larger one are worth.
    sums[lane] = atomicLoad(&bins[lane]);
    workgroupBarrier();
    for (var step = 1u; step < ${lanes}u; step <<= 1u) {
      let more = select(0u, sums[min(lane + step, ${lanes - 1}u)], lane + step < ${lanes}u);
      workgroupBarrier();
      sums[lane] += more;
      workgroupBarrier();
    }
    let larger = select(0u, sums[min(lane + 1u, ${lanes - 1}u)], lane < ${lanes - 1}u);
    if (sums[lane] >= rest && larger < rest) { chosen = vec2u(lane, rest - larger); }
    let found = workgroupUniformLoad(&chosen);
    rest = found.y;
    if (isOrder) {
      mask.x |= 255u << shift;
      last.x |= found.x << shift;
    } else {
      mask.y |= 255u << shift;
      last.y |= found.x << shift;
    }
  }
  return last;
}

fn edge(text: u32, first: u32, lane: u32, count: u32, keep: u32) -> vec2u {
  if (count <= keep) { return vec2u(0u); }
  return edgeBy(text, first, lane, count, keep, Worth(true, vec2u(0u), 0u, 0.0));
}

fn nucleusEdge(text: u32, first: u32, lane: u32, count: u32, keep: u32, last: vec2u, top: u32) -> vec2u {
  let worth = Worth(false, last, top, 0x1p32f / f32(keep + 1u));
  if (lane == 0u) { atomicStore(&bins[0], 0u); }
  workgroupBarrier();
  for (var at = lane; at < count; at += ${lanes}u) { atomicAdd(&bins[0], worthOf(text, placeOf(text, first, at), worth)); }
  workgroupBarrier();
  if (lane == 0u) { chosen = vec2u(atomicLoad(&bins[0]), 0u); }
  let total = workgroupUniformLoad(&chosen).x;
  workgroupBarrier();
  return edgeBy(text, first, lane, count, clamp(u32(ceil(f32(total) * nucleus(text))), 1u, total), worth);
}`;
