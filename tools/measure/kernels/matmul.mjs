// Products with float weights: one row and many, against the weights' bytes and the arithmetic.
import { kernelJobs, packedRowBytes, panelsAtOnce } from "../../../dist/wasm-kernels/exports.js";
import { interleave, Team } from "./team.mjs";

const mergeJob = { name: "matmulMerge", index: Object.keys(kernelJobs).indexOf("matmulMerge") };
const packJob = { name: "packRows", index: Object.keys(kernelJobs).indexOf("packRows") };

const [rows = "1,128", k = 4096, n = 4096, each = 4, turned = 0] = process.argv.slice(2);
const K = Number(k);
const N = Number(n);
for (const variant of ["relaxed", "simd"]) {
  for (const threads of [1, 2]) {
    const team = new Team({ variant, threads, megabytes: 1024 });
    const keep = team.next;
    for (const [bType, width, label] of [
      [0, 4, "float32"],
      [1, 2, "float16"],
      [2, 2, "bfloat16"],
    ]) {
      team.next = keep;
      const bytes = K * N * width;
      const copies = Math.max(2, Math.ceil((160 << 20) / bytes));
      const weights = Array.from({ length: copies }, () => {
        const at = team.take(bytes);
        if (width === 4) team.floats(at, K * N).fill(0.25);
        else new Uint16Array(team.memory.buffer, at, K * N).fill(bType === 1 ? 0x3555 : 0x3eaa);
        return at;
      });
      for (const M of rows.split(",").map(Number)) {
        const a = team.fill(team.take(M * K * 4), M * K);
        const c = team.take(M * N * 4);
        const splits = M <= 8 && !Number(turned) ? 16 : 1;
        const partials = splits > 1 ? team.take(splits * M * N * 4) : 0;
        const packed = M > 8 ? team.take(packedRowBytes({ batch: 1, m: M, k: K })) : 0;
        const jobs = weights.map((b) =>
          team.job("matmul", {
            a,
            b,
            c,
            rows: packed,
            partials,
            splits,
            aType: 0,
            bType,
            m: M,
            n: N,
            k: K,
            aRow: K,
            aColumn: 1,
            bK: Number(turned) ? 1 : N,
            bN: Number(turned) ? K : 1,
            cRow: N,
            batch: 1,
            panels: panelsAtOnce(N, team.scratchBytes),
          }),
        );
        const packs = packed ? jobs.map(({ at }) => ({ ...packJob, at })) : [];
        const run = (round) => {
          if (packed) team.run(packs[round % copies]);
          team.run(jobs[round % copies], splits > 1 ? splits : threads === 1 ? 1 : threads * each);
          if (splits > 1) team.run({ ...jobs[round % copies], ...mergeJob });
        };
        const [time] = interleave([run], {
          rounds: M > 1 ? 7 : 41,
          warm: M > 1 ? 2 : 8,
        });
        const rate =
          M > 1
            ? `${((2 * M * K * N) / time.least / 1e6).toFixed(1)} GF/s`
            : `${(bytes / time.least / 1e6).toFixed(1)} GB/s`;
        console.log(
          variant,
          threads,
          label,
          `M=${M}`,
          time.median.toFixed(3),
          "ms, least",
          time.least.toFixed(3),
          rate,
          "processor",
          time.processor.toFixed(2),
        );
      }
    }
    await team.stop();
  }
}
