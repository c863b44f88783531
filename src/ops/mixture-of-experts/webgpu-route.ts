/** Where tokens go on WebGPU: a workgroup has a token, and each invocation some of the experts, whose places in the order of scores it counts. */
import type { Operand } from "../../graph/kernel.js";
import { dispatchOf, variable } from "../../webgpu-kernels/shader-part.js";
import type { WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { workgroupsFor } from "../../webgpu-kernels/wgsl.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { type Call, given } from "./call.js";

/** Invocations of a workgroup. */
const size = 64;

/** Each token's experts and their weights, behind each other in `routes`. */
export function route({ inputs, attrs }: Call, routes: Operand, recorder: WebgpuRecorder): void {
  const { router_probs: scores } = inputs;
  const weights = given(inputs);
  const [tokens, experts] = scores.shape;
  const { k, normalize_routing_weights: normalize, use_sparse_mixer: mixer } = attrs;
  const [read, replaced] = [variable("scores", scores), weights && variable("given", weights)];
  const isGiven = replaced !== undefined;
  const isMixed = mixer && !isGiven;
  // A weight against the scores that are near its own; the second one's without the first expert.
  const mixed = `let best = scoreOf(token, expert);
    var near = 0.0;
    for (var other = 0u; other < p.experts; other++) {
      let score = scoreOf(token, other);
      if (!(place > 0u && other == chosen[0]) && best - score <= 0.02 * max(abs(score), best)) { near += exponential(score - best); }
    }
    weights[place] = select(1.0 / near, 0.0, near == 0.0);`;
  const plain = `weights[place] = ${
    isGiven ? replaced.load("p.givenOffset + token * p.experts + expert") : "exponential(scoreOf(token, expert) - most)"
  };`;
  const all =
    "for (var expert = 0u; expert < p.experts; expert++) { sum += exponential(scoreOf(token, expert) - most); }";
  const own = "for (var place = 0u; place < p.k; place++) { sum += weights[place]; }";
  const isDivided = !isMixed && (!isGiven || normalize);
  const divided = isGiven ? "select(weights[place] / sum, 0.0, sum == 0.0)" : "weights[place] / sum";
  recorder.dispatch(
    dispatchOf({
      name: "routeExperts",
      parts: [
        functionsPart("isNan", "exponential"),
        read,
        replaced,
        variable("routes", routes, { writes: true }),
        {
          // Whole numbers in the order of scores: NaN counts as the lowest, and both zeros are one.
          code: `fn scoreOf(token: u32, expert: u32) -> f32 { return ${read.load("p.scoresOffset + token * p.experts + expert")}; }
fn rankOf(score: f32) -> u32 {
  let bits = bitcast<u32>(score);
  if (isNan(score)) { return 0x007fffffu; }
  if ((bits & 0x7fffffffu) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}`,
        },
      ],
      parameters: {
        tokens,
        experts,
        k,
        count: tokens * k,
        scoresOffset: scores.place.offset,
        givenOffset: weights?.place.offset ?? 0,
      },
      workgroups: workgroupsFor(tokens, 1, recorder.device.mostWorkgroups),
      // Of equal scores the last expert comes first.
      code: `var<workgroup> ranks: array<u32, ${experts}>;
var<workgroup> chosen: array<u32, ${k}>;
var<workgroup> weights: array<f32, ${k}>;
@compute @workgroup_size(${size}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let token = group.y * groups.x + group.x;
  if (token >= p.tokens) { return; }
  let at = token * p.k;
  for (var expert = lane; expert < p.experts; expert += ${size}u) { ranks[expert] = rankOf(scoreOf(token, expert)); }
  workgroupBarrier();
  for (var expert = lane; expert < p.experts; expert += ${size}u) {
    let rank = ranks[expert];
    var place = 0u;
    for (var other = 0u; other < p.experts; other++) {
      let before = ranks[other];
      if (before > rank || (before == rank && other > expert)) { place++; }
    }
    if (place < p.k) { chosen[place] = expert; }
  }
  workgroupBarrier();
  let most = scoreOf(token, chosen[0]);
  for (var place = lane; place < p.k; place += ${size}u) {
    let expert = chosen[place];
    ${isMixed ? mixed : plain}
  }
  workgroupBarrier();
  ${isDivided ? `var sum = 0.0;\n  ${isGiven || normalize ? own : all}` : ""}
  for (var place = lane; place < p.k; place += ${size}u) {
    routes[at + place] = chosen[place];
    routes[p.count + at + place] = bitcast<u32>(${isDivided ? divided : "weights[place]"});
  }
}`,
    }),
  );
}
