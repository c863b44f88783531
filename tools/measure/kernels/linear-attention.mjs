// Linear attention, 32 states of 128 × 128 read by 16 heads: a token beside a copy of as many bytes, and a prompt of 512 beside the reference implementation.
import { computeLinearAttention } from "../../../dist/ops/linear-attention/reference.js";
import { View } from "../../../dist/tensor/view.js";
import { interleave, Team } from "./team.mjs";

const [queries, states, size, valueSize] = [16, 32, 128, 128];
for (const threads of [1, 2]) {
  const team = new Team({ threads, megabytes: 1024 });
  const count = states * size * valueSize;
  const copies = Math.ceil((160 << 20) / (count * 4));
  const held = Array.from({ length: copies }, () => team.fill(team.take(count * 4), count));
  const jobOf = (tokens, state) => {
    const place = (elements) => team.fill(team.take(elements * 4), elements);
    return team.job("linearAttention", {
      query: place(tokens * queries * size),
      key: place(tokens * queries * size),
      value: place(tokens * states * valueSize),
      decay: place(tokens * states),
      rate: place(tokens * states),
      past: state,
      state,
      output: place(tokens * states * valueSize),
      type: 0,
      batch: 1,
      tokens,
      queries,
      keys: queries,
      states,
      size,
      valueSize,
      gates: 1,
      rates: states,
      scale: 0.1,
      chunk: Math.min(32, tokens),
    });
  };
  const jobs = held.map((state) => jobOf(1, state));
  const moves = held.map((source, at) =>
    team.job("convert", { source, target: held[(at + 1) % copies], sourceType: 0, targetType: 0, count }),
  );
  const parts = threads === 1 ? 1 : threads * 4;
  const [token, move] = interleave(
    [(round) => team.run(jobs[round % copies], parts), (round) => team.run(moves[round % copies], parts)],
    { rounds: 61, warm: 10 },
  );
  const speed = (ms) => `${((8 * count) / ms / 1e6).toFixed(1)} GB/s`;
  console.log(
    `${threads} threads, a token: ${token.median.toFixed(3)} ms, ${speed(token.median)}; a copy: ${move.median.toFixed(3)} ms, ${speed(move.median)}: ` +
      `${((100 * move.median) / token.median).toFixed(0)} %`,
  );
  const prompt = jobOf(512, held[0]);
  const [whole] = interleave([() => team.run(prompt, parts)], { rounds: 5, warm: 2 });
  const fed = (width) => View.allocate("float32", [1, 512, width]);
  const state = View.allocate("float32", [1, states, size, valueSize]);
  const start = performance.now();
  computeLinearAttention({
    inputs: {
      query: fed(queries * size),
      key: fed(queries * size),
      value: fed(states * valueSize),
      past_state: state,
      decay: fed(states),
      beta: fed(states),
    },
    outputs: { output: fed(states * valueSize), present_state: state },
    attrs: { q_num_heads: queries, kv_num_heads: states, update_rule: "gated_delta", scale: 0, state_window: 0 },
    wants: () => true,
  });
  const reference = performance.now() - start;
  console.log(
    `${threads} threads, 512 tokens: ${whole.median.toFixed(1)} ms; the reference implementation ${reference.toFixed(0)} ms: ${(reference / whole.median).toFixed(1)} ×`,
  );
  await team.stop();
}
