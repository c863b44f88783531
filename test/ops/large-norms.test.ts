// Normalizations of numbers whose squares no float32 holds, from 1e-30 to the largest there are, on every backend and in random shapes: the
// results of loops in float64.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { type AttributeInput, buildModel, float, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { backends } from "../support/backends.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 1909);
const rounds = soak ? 60 : 1;

interface Norm {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  readonly attrs?: Readonly<Record<string, AttributeInput>>;
  /** Operands beside x, by the length of its last dimension and its channels. */
  readonly others: readonly ("skip" | "scale" | "bias" | "channel scale" | "channel bias")[];
  /** One normalized stretch of x + skip, before scale and bias. */
  readonly normalize: (x: readonly number[]) => readonly number[];
  /** Which elements of [2, 4, size] are normalized together: each row, each channel or group of a sample, or the sizes of all. */
  readonly together?: (sample: number, channel: number, at: number) => string;
}

const sum = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0);
const rms =
  (epsilon: number) =>
  (x: readonly number[]): number[] =>
    x.map((each) => each / Math.sqrt(sum(x.map((other) => other * other)) / x.length + epsilon));
const layer =
  (epsilon: number) =>
  (x: readonly number[]): number[] => {
    const mean = sum(x) / x.length;
    return rms(epsilon)(x.map((each) => each - mean));
  };
const epsilon = Math.fround(1e-5);
const microsoft = "com.microsoft";
const norms: readonly Norm[] = [
  { op: "LayerNormalization", others: ["scale", "bias"], normalize: layer(epsilon) },
  { op: "RMSNormalization", others: ["scale"], normalize: rms(epsilon) },
  { op: "RMSNormalization", attrs: { epsilon: float(0) }, others: ["scale"], normalize: rms(0) },
  { op: "SimplifiedLayerNormalization", opset: 21, others: ["scale"], normalize: rms(epsilon) },
  {
    op: "SkipLayerNormalization",
    domain: microsoft,
    attrs: { epsilon: float(epsilon) },
    others: ["skip", "scale", "bias"],
    normalize: layer(epsilon),
  },
  {
    op: "SkipSimplifiedLayerNormalization",
    domain: microsoft,
    attrs: { epsilon: float(0) },
    others: ["skip", "scale"],
    normalize: rms(0),
  },
  {
    op: "InstanceNormalization",
    others: ["channel scale", "channel bias"],
    normalize: layer(epsilon),
    together: (sample, channel) => `${sample} ${channel}`,
  },
  {
    op: "GroupNormalization",
    attrs: { num_groups: 2 },
    others: ["channel scale", "channel bias"],
    normalize: layer(epsilon),
    together: (sample, channel) => `${sample} ${channel >> 1}`,
  },
  { op: "LpNormalization", others: [], normalize: (x) => rms(0)(x).map((each) => each / Math.sqrt(x.length)) },
  {
    op: "LpNormalization",
    attrs: { p: 1 },
    others: [],
    normalize: (x) => x.map((each) => each / sum(x.map(Math.abs))),
  },
  {
    op: "MeanVarianceNormalization",
    attrs: { axes: [0, 2] },
    others: [],
    normalize: layer(1e-18), // its definition adds 1e-9 to the deviation
    together: (_, channel) => `${channel}`,
  },
];

test(`${norms.length} normalizations, ${rounds} rounds from seed ${seed}`, async () => {
  for (const [number, norm] of norms.entries()) {
    for (let round = 0; round < rounds; round++) {
      const random = seededRandom(seed + number * 1000 + round);
      const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)];
      const magnitude = pick([1e17, 1e19, 1e20, 1e30, 3e38]);
      const size = pick([1, 3, 4, 7, 64, 129]);
      const shape = [2, 4, size];
      const make = (count: number, scale: number): Float32Array =>
        Float32Array.from({ length: count }, () => (random() * 2 - 1) * scale);
      const x = make(8 * size, magnitude);
      const operands = norm.others.map((kind) => {
        if (kind === "skip") return new Tensor("float32", make(8 * size, magnitude / 3), shape);
        const count = kind.startsWith("channel") ? 4 : size;
        return new Tensor("float32", make(count, 2), [count]);
      });
      const of = (kind: string): ArrayLike<number> | undefined =>
        operands[norm.others.findIndex((other) => other.endsWith(kind))]?.data as Float32Array | undefined;
      const [skip, scale, bias] = [of("skip"), of("scale"), of("bias")];
      const byChannel = norm.others.some((kind) => kind.startsWith("channel"));
      const groups = new Map<string, number[]>();
      x.forEach((_, at) => {
        const [sample, channel] = [Math.floor(at / size / 4), Math.floor(at / size) % 4];
        const key = norm.together?.(sample, channel, at % size) ?? `${Math.floor(at / size)}`;
        groups.set(key, [...(groups.get(key) ?? []), at]);
      });
      const expected = new Float64Array(x.length);
      for (const places of groups.values()) {
        const normalized = norm.normalize(places.map((at) => x[at] + (skip?.[at] ?? 0)));
        places.forEach((at, index) => {
          const place = byChannel ? Math.floor(at / size) % 4 : at % size;
          expected[at] = normalized[index] * (scale?.[place] ?? 1) + (bias?.[place] ?? 0);
        });
      }
      const model = buildModel({
        opset: norm.domain === undefined ? (norm.opset ?? 24) : { "": 21, [norm.domain]: 1 },
        inputs: [value("x", "float32", shape)],
        outputs: [value("y")],
        initializers: operands.map((operand, at) => initializer(`o${at}`, operand)),
        nodes: [
          node(norm.op, ["x", ...operands.map((_, at) => `o${at}`)], ["y"], norm.attrs, { domain: norm.domain ?? "" }),
        ],
      });
      for (const { name: backend, options } of backends) {
        const session = await InferenceSession.create(writeModel(model), options);
        const { y } = await session.run({ x: new Tensor("float32", x, shape) });
        await session.release();
        const worst = Math.max(...Array.from(y.data as Float32Array, (each, at) => Math.abs(each - expected[at]) || 0));
        const isSame = Array.from(y.data as Float32Array).every(
          (each, at) => Number.isNaN(each) === Number.isNaN(expected[at]),
        );
        const what = `${norm.op}, round ${round}, ${backend}, |x| up to ${magnitude}, rows of ${size}`;
        expect(worst, what).toBeLessThan(1e-4);
        expect(isSame, what).toBe(true);
      }
    }
  }
});
