// The bigger box: TensorScatter and Attention as one kernel against the pair, for a decode step of one token.
// Caches take turns and are larger than L3 together; the pair and the one alternate in every round.
import { interleave, Team } from "./team.mjs";

const [heads, kvHeads, size, capacity] = [32, 8, 128, 8192];
const copies = 3;
for (const threads of [1, 2]) {
  const team = new Team({ threads, megabytes: 640 });
  const query = team.fill(team.take(heads * size * 4), heads * size);
  const output = team.take(heads * size * 4);
  const [newKey, newValue] = [0, 0].map(() => team.fill(team.take(kvHeads * size * 4), kvHeads * size));
  const [lengths, indices] = [team.take(8), team.take(8)];
  const cacheBytes = kvHeads * capacity * size * 4;
  const steps = Array.from({ length: copies }, () => {
    const [key, value] = [0, 0].map(() => team.take(cacheBytes));
    for (const at of [key, value]) team.floats(at, cacheBytes / 4).fill(0.1);
    const attention = {
      query,
      key,
      value,
      output,
      queryType: 0,
      cacheType: 0,
      batch: 1,
      heads,
      kvHeads,
      queries: 1,
      headSize: size,
      valueSize: size,
      queryHead: size,
      queryRow: size,
      keyHead: capacity * size,
      keyRow: size,
      valueHead: capacity * size,
      valueRow: size,
      outputHead: size,
      outputRow: size,
      lengths,
      total: capacity,
      causal: 1,
      left: -1,
      right: -1,
      scale: 0.088,
      splits: 1,
      newKey,
      newValue,
      newKeyHead: size,
      newValueHead: size,
      indices,
    };
    const scatter = (source, target) =>
      team.job("scatterRows", {
        source,
        target,
        indices,
        batch: 1,
        outer: kvHeads,
        length: 1,
        capacity,
        rowBytes: size * 4,
        sourceOuter: size * 4,
        sourceRow: size * 4,
        targetOuter: capacity * size * 4,
        targetRow: size * 4,
      });
    return {
      pair: [scatter(newKey, key), scatter(newValue, value), team.job("attentionDecode", attention)],
      one: team.job("scatterAttentionDecode", attention),
    };
  });
  for (const length of [16, 128, 512, 4096]) {
    team.words[lengths >> 2] = length;
    team.words[indices >> 2] = length - 1;
    const [pair, one] = interleave(
      [
        (round) => {
          for (const job of steps[round % copies].pair) team.run(job);
        },
        (round) => team.run(steps[(round + 1) % copies].one),
      ],
      { rounds: 201, warm: 20 },
    );
    console.log(
      `${threads} thread(s), ${length} valid keys: pair ${(pair.median * 1e3).toFixed(1)} us, one ${(one.median * 1e3).toFixed(1)} us,`,
      `saved ${((pair.median - one.median) * 1e3).toFixed(1)} us (${((1 - one.median / pair.median) * 100).toFixed(1)} %);`,
      `fastest ${(pair.least * 1e3).toFixed(1)} and ${(one.least * 1e3).toFixed(1)}`,
    );
  }
  await team.stop();
}
