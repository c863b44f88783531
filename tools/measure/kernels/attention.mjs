// Decode attention over a float32, float16 and bfloat16 cache: 32 query heads, 8 key heads of 128, rotating over caches larger than L3.
import { interleave, Team } from "./team.mjs";

const [length = 4096, capacity = 8192, heads = 32, kvHeads = 8, size = 128] = process.argv.slice(2).map(Number);
const caches = 3;
for (const variant of ["relaxed", "simd"]) {
  for (const threads of [1, 2]) {
    const team = new Team({ variant, threads, megabytes: 1024 });
    const results = {};
    const keep = team.next;
    for (const [cacheType, width, label] of [
      [0, 4, "float32"],
      [1, 2, "float16"],
      [2, 2, "bfloat16"],
    ]) {
      team.next = keep;
      const query = team.fill(team.take(heads * size * 4), heads * size);
      const output = team.take(heads * size * 4);
      const jobs = [];
      for (let i = 0; i < caches; i++) {
        const cacheBytes = kvHeads * capacity * size * width;
        const [key, value] = [team.take(cacheBytes), team.take(cacheBytes)];
        for (const at of [key, value]) {
          if (width === 4) team.fill(at, cacheBytes / 4);
          else new Uint16Array(team.memory.buffer, at, cacheBytes / 2).fill(cacheType === 1 ? 0x3555 : 0x3eaa);
        }
        const cacheHead = capacity * size;
        jobs.push(
          team.job("attentionDecode", {
            query,
            key,
            value,
            output,
            queryType: 0,
            cacheType,
            batch: 1,
            heads,
            kvHeads,
            queries: 1,
            headSize: size,
            valueSize: size,
            querySample: 0,
            queryHead: size,
            queryRow: size,
            keySample: 0,
            keyHead: cacheHead,
            keyRow: size,
            valueSample: 0,
            valueHead: cacheHead,
            valueRow: size,
            outputSample: 0,
            outputHead: size,
            outputRow: size,
            lengths: 0,
            total: length,
            past: length - 1,
            causal: 1,
            left: -1,
            right: -1,
            scale: 1 / Math.sqrt(size),
            splits: 1,
          }),
        );
      }
      const [time] = interleave([(round) => team.run(jobs[round % caches])], { rounds: 41, warm: 8 });
      const bytes = 2 * kvHeads * length * size * width;
      results[label] =
        `${time.median.toFixed(3)} ms, least ${time.least.toFixed(3)}: ${(bytes / time.least / 1e6).toFixed(1)} GB/s`;
    }
    console.log(variant, threads, results);
    await team.stop();
  }
}
