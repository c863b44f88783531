/**
 * SampleToken on WebGPU, in two dispatches however long the vocabulary is: each workgroup looks at a piece of a row and leaves its largest
 * logit, and for a draw its best token, or those that may be among the likeliest; then one workgroup a text picks. Which of these is asked
 * for stands in operands that every invocation reads alike. What a dispatch is made of is pieces.ts's matter.
 */
import type { CallOf } from "../../graph/kernel.js";
import { dispatchOf, type Variable, variable } from "../../webgpu-kernels/shader-part.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isShaderType } from "../../webgpu-kernels/wgsl.js";
import { SampleToken } from "./op.js";
import { edge, lanes, largest, noise, type Options, scores, tokenBits } from "./pieces.js";

type Call = CallOf<typeof SampleToken>;

/** Logits that one workgroup looks at. */
const piece = 2048;

/** Words that a text's options take in what is left for the last dispatch, which has no bindings to spare. */
const optionWords = 9;

const fedOption = (at: number): string => `options[p.options + text * p.optionsStep + ${at}u]`;

/** The options as they are fed. */
const fed: Options = {
  temperature: fedOption(0),
  topK: ["topK[2u * (p.topK + text * p.topKStep)]", "topK[2u * (p.topK + text * p.topKStep) + 1u]"],
  topP: fedOption(1),
  minP: fedOption(2),
  penalty: fedOption(3),
  seed: ["seed[2u * (p.seed + text * p.seedStep)]", "seed[2u * (p.seed + text * p.seedStep) + 1u]"],
  counter: "counter[2u * (p.counter + text * p.counterStep)]",
};

const leftWord = (at: number): string => `found[${optionWords}u * text + ${at}u]`;

/** The options as the first dispatch leaves them. */
const left: Options = {
  temperature: leftWord(0),
  topK: [leftWord(1), leftWord(2)],
  topP: leftWord(3),
  minP: leftWord(4),
  seed: [leftWord(5), leftWord(6)],
  counter: leftWord(7),
  penalty: leftWord(8),
};

const main = (body: string): string => `
@compute @workgroup_size(${lanes}) fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
${body}
}`;

/** Leaves of a piece: [largest logit, its token, best key, its token], and its part of the candidates where only the likeliest may be drawn. */
const leave = `
fn placeOf(text: u32, first: u32, at: u32) -> vec2u { return vec2u(logit(text, first + at), rank(first + at)); }
var<workgroup> taken: atomic<u32>;
${main(`
  let text = group.y;
  let first = group.x * ${piece}u;
  let count = min(${piece}u, p.vocabulary - first);
  var best = vec2u(0u, first);
  for (var at = lane; at < count; at += ${lanes}u) {
    let order = logit(text, first + at);
    if (order > best.x) { best = vec2u(order, first + at); }
  }
  let top = largest(lane, best);
  let left = p.pieceStart + 4u * (text * p.pieces + group.x);
  if (lane == 0u) {
    found[left] = top.x;
    found[left + 1u] = top.y;
  }
  if (lane == 0u && group.x == 0u) {
    let own = ${optionWords}u * text;
${[fed.temperature, ...fed.topK, fed.topP, fed.minP, ...fed.seed, fed.counter, fed.penalty].map((word, at) => `    found[own + ${at}u] = ${word};`).join("\n")}
  }
  let keep = likeliest(text);
  // A least share of the largest logit can be told by nobody who knows a piece alone.
  if (isGreedy(text) || (keep == 0u && share(text) > 0.0)) { return; }
  if (keep == 0u) {
    var drawn = vec2u(0u, first);
    for (var at = lane; at < count; at += ${lanes}u) {
      let order = logit(text, first + at);
      if (order <= below) { continue; }
      let key = ordered((score(order) - score(top.x)) / heat(text) + noise(text, first + at));
      if (key > drawn.x) { drawn = vec2u(key, first + at); }
    }
    drawn = largest(lane, drawn);
    if (lane == 0u) {
      found[left + 2u] = drawn.x;
      found[left + 3u] = drawn.y;
    }
    return;
  }
  if (lane == 0u) { atomicStore(&taken, 0u); }
  // Has barriers.
  let last = edge(text, first, lane, count, min(keep, count));
  let start = p.candidates + 2u * (text * p.vocabulary + group.x * min(keep, ${piece}u));
  for (var at = lane; at < count; at += ${lanes}u) {
    let place = placeOf(text, first, at);
    if (isBefore(place, last)) {
      let slot = start + 2u * atomicAdd(&taken, 1u);
      found[slot] = place.x;
      found[slot + 1u] = first + at;
    }
  }`)}`;

/** Picks the token of a text out of what was left of its pieces. */
const pick = `
fn placeOf(text: u32, first: u32, at: u32) -> vec2u { return vec2u(found[first + 2u * at], rank(found[first + 2u * at + 1u])); }
fn isAllowed(text: u32, order: u32, top: u32) -> bool {
  if (order <= below) { return false; }
  return order == top || !(share(text) > 0.0) || score(order) >= score(top) + heat(text) * log(share(text));
}
fn keyOf(text: u32, order: u32, top: u32, token: u32) -> u32 {
  return ordered((score(order) - score(top)) / heat(text) + noise(text, token));
}
fn say(text: u32, lane: u32, token: u32, high: u32) {
  if (lane == 0u) {
    sayToken(text, token, high);
    sayInput(text, select(token, 0u, high != 0u), 0u);
  }
  saySeen(text, lane, token);
}
${main(`
  let text = group.x;
  let left = p.pieceStart + 4u * text * p.pieces;
  var best = vec2u(0u, 0xffffffffu);
  for (var at = lane; at < p.pieces; at += ${lanes}u) {
    let one = vec2u(found[left + 4u * at], found[left + 4u * at + 1u]);
    if (precedes(one, best)) { best = one; }
  }
  let top = largest(lane, best);
  if (top.x <= below || top.x >= above) {
    say(text, lane, 0xffffffffu, 0xffffffffu);
    return;
  }
  if (isGreedy(text)) {
    say(text, lane, top.y, 0u);
    return;
  }
  let keep = likeliest(text);
  var drawn = vec2u(0u, 0xffffffffu);
  if (keep > 0u) {
    let first = p.candidates + 2u * text * p.vocabulary;
    let rest = p.vocabulary - (p.pieces - 1u) * ${piece}u;
    let count = (p.pieces - 1u) * min(keep, ${piece}u) + min(keep, rest);
    var last = edge(text, first, lane, count, keep);
    if (nucleus(text) < 1.0) { last = nucleusEdge(text, first, lane, count, keep, last, top.x); }
    for (var at = lane; at < count; at += ${lanes}u) {
      let place = placeOf(text, first, at);
      let token = rank(place.y);
      if (!isBefore(place, last) || !isAllowed(text, place.x, top.x)) { continue; }
      let one = vec2u(keyOf(text, place.x, top.x, token), token);
      if (precedes(one, drawn)) { drawn = one; }
    }
  } else if (share(text) > 0.0) {
    for (var token = lane; token < p.vocabulary; token += ${lanes}u) {
      let order = logit(text, token);
      if (!isAllowed(text, order, top.x)) { continue; }
      let one = vec2u(keyOf(text, order, top.x, token), token);
      if (precedes(one, drawn)) { drawn = one; }
    }
  } else {
    for (var at = lane; at < p.pieces; at += ${lanes}u) {
      let own = left + 4u * at;
      if (found[own] <= below) { continue; }
      let key = score(found[own + 2u]) + (score(found[own]) - score(top.x)) / heat(text);
      let one = vec2u(ordered(key), found[own + 3u]);
      if (precedes(one, drawn)) { drawn = one; }
    }
  }
  drawn = largest(lane, drawn);
  say(text, lane, drawn.y, 0u);`)}`;

/** Writes a number of int64 for each text, where it is asked for. */
const saying = (name: string, array: string, isAsked: boolean): string => `
fn ${name}(text: u32, low: u32, high: u32) {
${isAsked ? `  ${array}[2u * (p.${array} + text)] = low;\n  ${array}[2u * (p.${array} + text) + 1u] = high;` : ""}
}`;

/** Writes the tokens that were seen, where they are asked for: no token is none of them. */
const sayingSeen = (isAsked: boolean): string => `
fn saySeen(text: u32, lane: u32, token: u32) {
${
  isAsked
    ? `  for (var word = lane; word < p.seenWords; word += ${lanes}u) {
    let mark = select(0u, 1u << (token & 31u), (token >> 5u) == word);
    nextSeen[p.nextSeen + text * p.seenWords + word] = seenWord(text, word) | mark;
  }`
    : ""
}
}`;

/** The next token of each text. */
export const sampleToken: WebgpuKernel = webgpuKernel([SampleToken], {
  accepts({ inputs, outputs: { token, next_input: next, next_seen: seen } }) {
    const { logits } = inputs;
    if (!isShaderType(logits.type)) return `logits of ${logits.type} are none that shaders read`;
    if (logits.shape[2] >= 2 ** tokenBits) return `a vocabulary of ${logits.shape[2]} is too long`;
    const whole = [...Object.values(inputs), token, next, seen].every((operand) => operand?.contiguous !== false);
    return whole ? true : "an operand has gaps";
  },
  record(call, recorder) {
    const { inputs, outputs } = call;
    const [batch, rows, vocabulary] = inputs.logits.shape;
    if (batch === 0) return;
    const pieces = Math.ceil(vocabulary / piece);
    const pieceStart = optionWords * batch;
    const candidates = pieceStart + 4 * batch * pieces;
    const found = recorder.temporary(4 * (candidates + 2 * batch * vocabulary));
    const [, seenWords] = inputs.seen.shape;
    const parameters = {
      vocabulary,
      rows,
      pieces,
      pieceStart,
      candidates,
      logits: inputs.logits.place.offset,
      seenWords,
      ...placeOf("seen", inputs.seen),
    };
    const shared = (options: Options): string =>
      `${scores(inputs.logits.type, options)}\n${noise(options)}\n${largest}\n${edge}`;
    recorder.dispatch(
      dispatchOf({
        name: "sampleCandidates",
        code: `${shared(fed)}\n${leave}`,
        parts: [...arraysOf(call), variable("found", found, { writes: true })],
        parameters: {
          ...parameters,
          ...placeOf("options", inputs.options),
          ...placeOf("topK", inputs.top_k),
          ...placeOf("seed", inputs.seed),
          ...placeOf("counter", inputs.counter),
        },
        workgroups: [pieces, batch],
      }),
    );
    const { token, next_input: next, next_seen: seen } = outputs;
    const said = `${saying("sayToken", "tokens", token !== undefined)}${saying("sayInput", "nextInputs", next !== undefined)}${sayingSeen(seen !== undefined)}`;
    recorder.dispatch(
      dispatchOf({
        name: "pickToken",
        code: `${shared(left)}\n${said}\n${pick}`,
        parts: [
          variable("logits", inputs.logits),
          variable("found", found),
          variable("seen", inputs.seen),
          token && variable("tokens", token, { writes: true }),
          next && variable("nextInputs", next, { writes: true }),
          seen && variable("nextSeen", seen, { writes: true }),
        ],
        parameters: {
          ...parameters,
          tokens: token?.place.offset ?? 0,
          nextInputs: next?.place.offset ?? 0,
          nextSeen: seen?.place.offset ?? 0,
        },
        workgroups: [batch],
      }),
    );
  },
});

/** Where an option begins, and how far on the next text's is: nowhere, where one serves all. */
const placeOf = (name: string, { shape, place }: Call["inputs"]["seed"]): Record<string, number> => ({
  [name]: place.offset,
  [`${name}Step`]: (shape[0] ?? 1) === 1 ? 0 : (shape[1] ?? 1),
});

const arraysOf = ({ inputs: { logits, options, top_k: topK, seed, counter, seen } }: Call): readonly Variable[] =>
  Object.entries({ logits, options, topK, seed, counter, seen }).map(([name, of]) => variable(name, of));
