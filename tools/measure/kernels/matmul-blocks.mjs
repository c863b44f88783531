// Products with block-quantized weights: one row and many, exact (16-bit activations) and fast (8-bit activations, relaxed build).
import { quantizedBytes } from "../../../dist/wasm-kernels/exports.js";
import { interleave, Team } from "./team.mjs";

const [rows = "1,128", k = 4096, n = 4096, size = 32, half = 0, each = 4] = process.argv.slice(2);
const [K, N, blockSize, scaleType] = [k, n, size, half].map(Number);
for (const variant of ["relaxed", "simd"]) {
  for (const threads of [1, 2]) {
    const team = new Team({ variant, threads, megabytes: 1024 });
    const keep = team.next;
    for (const [bits, precision] of [
      [8, 16],
      [4, 16],
      [4, 8],
    ]) {
      if (precision === 8 && variant === "simd") continue;
      team.next = keep;
      const blocks = K / blockSize;
      const scaleBytes = N * blocks * (scaleType ? 2 : 4);
      const bytes = (K * N * bits) / 8 + scaleBytes;
      const copies = Math.max(2, Math.ceil((160 << 20) / bytes));
      const weights = Array.from({ length: copies }, () => {
        const b = team.take((K * N * bits) / 8);
        for (let i = 0; i < (K * N * bits) / 32; i++) team.words[b / 4 + i] = Math.random() * 2 ** 32;
        const scales = team.take(scaleBytes);
        if (scaleType) new Uint16Array(team.memory.buffer, scales, N * blocks).fill(0x2000);
        else team.floats(scales, N * blocks).fill(0.01);
        return { b, scales };
      });
      for (const M of rows.split(",").map(Number)) {
        const a = team.fill(team.take(M * K * 4), M * K);
        const c = team.take(M * N * 4);
        const shape = { m: M, k: K, blockSize, bits, precision, alike: 0 };
        const sizes = quantizedBytes(shape);
        const [values, aScales, aSums] = [team.take(sizes.values), team.take(sizes.scales), team.take(sizes.sums)];
        const quantize = team.job("quantizeRows", {
          source: a,
          values,
          scales: aScales,
          sums: aSums,
          type: 0,
          sourceRow: K,
          ...shape,
        });
        const jobs = weights.map(({ b, scales }) =>
          team.job("matmulBlocks", {
            values,
            aScales,
            aSums,
            b,
            scales,
            c,
            scaleType,
            zerosType: -1,
            n: N,
            cRow: N,
            ...shape,
          }),
        );
        const [whole, alone] = interleave(
          [
            (round) => {
              team.run(quantize);
              team.run(jobs[round % copies], threads === 1 ? 1 : threads * each);
            },
            () => team.run(quantize),
          ],
          { rounds: M > 1 ? 9 : 41, warm: M > 1 ? 3 : 10 },
        );
        const rate =
          M > 1
            ? `${((2 * M * K * N) / whole.least / 1e6).toFixed(1)} GF/s`
            : `${(bytes / whole.least / 1e6).toFixed(1)} GB/s`;
        console.log(
          variant,
          threads,
          `int${bits} x int${precision}`,
          `M=${M}`,
          whole.median.toFixed(3),
          "ms, least",
          whole.least.toFixed(3),
          rate,
          "of which quantizing",
          alone.least.toFixed(3),
          "processor",
          whole.processor.toFixed(2),
        );
      }
    }
    await team.stop();
  }
}
