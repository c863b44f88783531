// The fast paths of matrix products beside the reference, with one to three threads and both builds: float weights of every type as they lie,
// for one row, few and many; integers to the last bit; weights with scales; Gemm with its transpositions.
import { test } from "vitest";
import { of } from "../../tools/cases/shared/case.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import type { View } from "../../src/tensor/view.js";
import { type Feed, randomFrom, randomView } from "./fast-path.js";
import { checking, floats, pick, type Random, useVariants } from "./light-checks.js";

const check = checking(useVariants());
const rows = [1, 1, 2, 5, 8, 9, 20, 131];
const inner = [1, 3, 8, 31, 64, 257];
const outer = [1, 4, 7, 8, 33, 70];

/** What sums of that many products may be off by. */
const within = (type: ElementType, k: number): { relative: number; absolute: number } => {
  const step = type === "float32" ? 1e-6 : type === "float16" ? 2 ** -10 : 2 ** -7;
  return { relative: step, absolute: step * 4 * Math.sqrt(k) };
};

const many = (name: string, once: (random: Random) => Promise<void>, times = 12): void =>
  test(name, async () => {
    const random = randomFrom(name.length * 31 + name.charCodeAt(1));
    for (let round = 0; round < times; round++) await once(random);
  });

const bytes = (random: Random, type: ElementType, shape: readonly number[]): View => {
  const [low, high] = { int8: [-128, 127], uint8: [0, 255], int4: [-8, 7], uint4: [0, 15] }[type as "int8"];
  const count = shape.reduce((product, dim) => product * dim, 1);
  return of(
    type,
    shape,
    Array.from({ length: count }, () => low + Math.floor(random() * (high - low + 1))),
  );
};

many("MatMul: every float type, constant weights and fed ones, batches", async (random) => {
  const [m, k, n] = [pick(random, rows), pick(random, inner), pick(random, outer)];
  const type = pick(random, floats);
  const batch = pick(random, [[], [1], [2, 3]]);
  const shared = random() < 0.6;
  const a: Feed = { view: randomView(random, type, [...batch, m, k]) };
  const b: Feed = {
    view: randomView(random, type, shared ? [k, n] : [...batch, k, n], { spread: 1 }),
    as: pick(random, ["fed", "constant"] as const),
  };
  await check({ op: "MatMul", inputs: [a, b], ...within(type, k) });
});

many("Gemm: transposed or not, with and without a bias", async (random) => {
  const [m, k, n] = [pick(random, rows), pick(random, inner), pick(random, outer)];
  const [transA, transB] = [random() < 0.3, random() < 0.6];
  const a: Feed = { view: randomView(random, "float32", transA ? [k, m] : [m, k]) };
  const b: Feed = { view: randomView(random, "float32", transB ? [n, k] : [k, n], { spread: 1 }), as: "constant" };
  const c: Feed[] = random() < 0.5 ? [] : [{ view: randomView(random, "float32", [n]), as: "constant" }];
  const attrs = { transA: Number(transA), transB: Number(transB) };
  await check({ op: "Gemm", attrs, inputs: [a, b, ...c], ...within("float32", k) });
});

many("FusedMatMul: transposed or not, in batches", async (random) => {
  const [m, k, n] = [pick(random, [1, 3, 9, 20]), pick(random, inner), pick(random, outer)];
  const [transA, transB, shared] = [random() < 0.4, random() < 0.6, random() < 0.5];
  const batch = pick(random, [[], [2], [2, 3]]);
  const type = pick(random, floats);
  const a: Feed = { view: randomView(random, type, [...batch, ...(transA ? [k, m] : [m, k])]) };
  const matrix = transB ? [n, k] : [k, n];
  const b: Feed = { view: randomView(random, type, shared ? matrix : [...batch, ...matrix], { spread: 1 }) };
  const attrs = { transA: Number(transA), transB: Number(transB) };
  await check({ op: "FusedMatMul", domain: "com.microsoft", attrs, inputs: [a, b], ...within(type, k) });
});

many("MatMulInteger: to the last bit", async (random) => {
  const [m, k, n] = [pick(random, rows), pick(random, inner), pick(random, outer)];
  const [left, right] = [pick(random, ["int8", "uint8"] as const), pick(random, ["int8", "uint8"] as const)];
  const a: Feed = { view: bytes(random, left, [m, k]) };
  const b: Feed = { view: bytes(random, right, [k, n]), as: "constant" };
  const zero = (type: ElementType, lines: number): Feed | undefined =>
    random() < 0.3 ? undefined : { view: bytes(random, type, random() < 0.5 ? [] : [lines]), as: "constant" };
  await check({ op: "MatMulInteger", inputs: [a, b, zero(left, m), zero(right, n)], relative: 0 });
});

many("DequantizeMatMul: 8 and 4 bits, scales for all, by column and by block", async (random) => {
  const [m, k, n] = [pick(random, rows), pick(random, inner), pick(random, [2, 4, 8, 34, 70])];
  const type = pick(random, ["int8", "uint8", "int4", "uint4"] as const);
  const blockSize = pick(random, [0, 0, 16, 32]);
  const single = blockSize === 0 && random() < 0.4;
  const shape = single ? [] : blockSize === 0 ? [n] : [Math.ceil(k / blockSize), n];
  const scale = randomView(random, "float32", shape, { spread: type.endsWith("4") ? 0.1 : 0.01 });
  const inputs: (Feed | undefined)[] = [
    { view: randomView(random, "float32", [m, k]) },
    { view: bytes(random, type, [k, n]), as: "constant" },
    { view: scale, as: "constant" },
    random() < 0.5 ? undefined : { view: bytes(random, type, shape), as: "constant" },
  ];
  if (random() < 0.5) inputs.push({ view: randomView(random, "float32", [n]), as: "constant" });
  const attrs = { axis: blockSize === 0 ? 1 : 0, block_size: blockSize };
  await check({ op: "DequantizeMatMul", domain: "insitu", attrs, inputs, relative: 1e-6, absolute: 2e-6 * k });
});
