// Prefill attention: many queries at once, causal, float32 and float16 caches.
import { interleave, Team } from "./team.mjs";

const [queries = 512, past = 0, heads = 32, kvHeads = 8, size = 128] = process.argv.slice(2).map(Number);
const total = past + queries;
for (const variant of ["relaxed", "simd"]) {
  for (const threads of [1, 2]) {
    const team = new Team({ variant, threads, megabytes: 512 });
    for (const [cacheType, width, label] of [
      [0, 4, "float32"],
      [1, 2, "float16"],
    ]) {
      const query = team.fill(team.take(queries * heads * size * 4), queries * heads * size);
      const output = team.take(queries * heads * size * 4);
      const [key, value] = [0, 0].map(() => team.take(kvHeads * total * size * width));
      for (const at of [key, value]) {
        if (width === 4) team.fill(at, kvHeads * total * size);
        else new Uint16Array(team.memory.buffer, at, kvHeads * total * size).fill(0x3555);
      }
      const job = team.job("attentionPrefill", {
        query,
        key,
        value,
        output,
        queryType: 0,
        cacheType,
        batch: 1,
        heads,
        kvHeads,
        queries,
        headSize: size,
        valueSize: size,
        querySample: 0,
        queryHead: queries * size,
        queryRow: size,
        keySample: 0,
        keyHead: total * size,
        keyRow: size,
        valueSample: 0,
        valueHead: total * size,
        valueRow: size,
        outputSample: 0,
        outputHead: queries * size,
        outputRow: size,
        total,
        past,
        causal: 1,
        left: -1,
        right: -1,
        scale: 1 / Math.sqrt(size),
        splits: 1,
      });
      const [time] = interleave([() => team.run(job)], { rounds: 7, warm: 3 });
      const operations = 4 * heads * size * (queries * past + (queries * (queries + 1)) / 2);
      console.log(
        variant,
        threads,
        label,
        time.median.toFixed(1),
        "ms, least",
        time.least.toFixed(1),
        "processor",
        time.processor.toFixed(1),
        `${(operations / time.processor / 1e6).toFixed(1)} GF/s of processor time`,
      );
    }
    await team.stop();
  }
}
