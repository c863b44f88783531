// Products with float weights: one row and many, against the weights' bytes and the arithmetic.
import { interleave, Team } from "./team.mjs";

const [rows = "1,128", k = 4096, n = 4096] = process.argv.slice(2);
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
        const jobs = weights.map((b) =>
          team.job("matmul", {
            a,
            b,
            c,
            bias: 0,
            aType: 0,
            bType,
            m: M,
            n: N,
            k: K,
            aRow: K,
            aColumn: 1,
            cRow: N,
            batch: 1,
          }),
        );
        const [time] = interleave([(round) => team.run(jobs[round % copies])], {
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
