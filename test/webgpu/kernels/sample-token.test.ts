// SampleToken on a device: against its reference implementation over vocabularies of many pieces, and against the distribution that it says it draws from.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../../src/entry/node.js";
import { seededRandom } from "../../../src/graph/call.js";
import { buildModel, node, value } from "../../../src/onnx/build.js";
import { writeModel } from "../../../src/onnx/write.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { View } from "../../../src/tensor/view.js";
import { writeNumbers } from "../../../src/tensor/access.js";
import { noWebgpu } from "../../support/backends.js";
import { soak } from "../../support/soak.js";

interface Drawing {
  /** One for all texts, or one for each. */
  readonly temperature: number | readonly number[];
  readonly topK: number | readonly number[];
  readonly minP: number | readonly number[];
  readonly topP: number | readonly number[];
  readonly penalty: number | readonly number[];
  readonly seeds: readonly number[];
  readonly counters: readonly number[];
}

const model = (type: ElementType): Uint8Array =>
  writeModel(
    buildModel({
      opset: { "": 24, insitu: 1 },
      inputs: [
        value("negated", type, ["batch", "rows", "vocabulary"]),
        value("options", "float32", ["rows_of_options", 4]),
        value("top_k", "int64", ["counts"]),
        value("seed", "int64", ["batch"]),
        value("counter", "int64", ["batch"]),
        value("seen", "int32", ["rows_of_seen", "words"]),
      ],
      outputs: [value("token", "int64", ["batch", 1]), value("next_seen", "int32", ["batch", "words"])],
      nodes: [
        // Whole numbers that are made of feeds alone would be computed on the host.
        node("Neg", ["negated"], ["logits"]),
        node(
          "SampleToken",
          ["logits", "options", "top_k", "seed", "counter", "seen"],
          ["token", "", "next_seen"],
          {},
          { domain: "insitu" },
        ),
      ],
    }),
  );

const int64 = (values: readonly number[], dims: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** Every third token, in each text another one of three. */
function seenOf(texts: number, vocabulary: number): Tensor {
  const words = Math.ceil(vocabulary / 32);
  const bits = new Int32Array(texts * words);
  for (let text = 0; text < texts; text++)
    for (let token = 0; token < vocabulary; token++)
      if ((token + text) % 3 === 0) bits[text * words + (token >> 5)] |= 1 << (token & 31);
  return new Tensor("int32", bits, [texts, words]);
}

/** The tokens, and those that were seen then. */
async function draw(
  session: InferenceSession,
  negated: Tensor,
  drawing: Drawing,
): Promise<{ readonly tokens: readonly number[]; readonly seen: ArrayLike<unknown> }> {
  const { temperature, topK, topP, minP, penalty, seeds, counters } = drawing;
  const list = (given: number | readonly number[]): readonly number[] => (typeof given === "number" ? [given] : given);
  const [temperatures, nuclei, shares, penalties] = [temperature, topP, minP, penalty].map(list);
  const rows = temperatures.flatMap((each, at) => [each, nuclei[at], shares[at], penalties[at]]);
  const { token, next_seen: seen } = await session.run({
    negated,
    options: new Tensor("float32", Float32Array.from(rows), [temperatures.length, 4]),
    top_k: int64(list(topK), [list(topK).length]),
    seed: int64(seeds, [seeds.length]),
    counter: int64(counters, [counters.length]),
    seen: seenOf(temperatures.length, negated.dims[2]),
  });
  return { tokens: Array.from(token.data as BigInt64Array, Number), seen: seen.data as Int32Array };
}

/** Logits as they are fed. */
function logitsOf(type: ElementType, dims: readonly number[], numbers: ArrayLike<number>): Tensor {
  const view = View.allocate(type, dims);
  writeNumbers(
    view,
    Array.from(numbers, (x) => -x),
  );
  return Tensor.fromView(view);
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  const ways: readonly (readonly [temperature: number, topK: number, minP: number, topP: number, penalty: number])[] = [
    [0, 0, 0, 1, 1],
    [0, 5, 0.5, 1, 1.5],
    [1, 0, 0, 1, 1.1],
    [0.7, 1, 0, 1, 1],
    [1.3, 40, 0, 1, 1.1],
    [1, 3000, 0, 1, 1],
    [0.9, 0, 0.05, 1, 1.2],
    [2, 40, 0.1, 1, 1],
    [1, 1_000_000, 1, 1, 1],
    [1e-40, 0, 0, 1, 1],
    [1e30, 7, 0, 1, 1],
    [0.01, 0, 0, 1, 1],
    [1, 20, 0, 0.95, 1.05],
    [3, 40, 0, 0.5, 1],
    [1.5, 1024, 0, 0.9, 1],
    [1, 5000, 0.05, 0.8, 1],
    [2, 0, 0, 0.7, 0.8],
    [0.5, 3, 0, 1e-6, 1],
    [1e30, 9, 0, 0.34, 1],
  ];
  test.each(["float32", "float16", "bfloat16"] as const)(
    "the tokens of the reference implementation, %s",
    async (type) => {
      const options = { fallback: "never" } as const;
      const [device, host] = [
        await InferenceSession.create(model(type), { backend: "webgpu", ...options }),
        await InferenceSession.create(model(type), { backend: "reference" }),
      ];
      const random = seededRandom(11);
      const sizes = soak ? [1, 5, 2048, 2049, 6000] : [5, 2049];
      for (const vocabulary of sizes) {
        const [batch, rows] = [3, 2];
        // Whole numbers among them, so that there are many ties; the second text has NaN, infinities and zeros of both signs.
        const numbers = Float64Array.from({ length: batch * rows * vocabulary }, (_, at) => {
          const x = 16 * random() - 8;
          if (Math.floor(at / (rows * vocabulary)) === 1 && random() < 0.3)
            return [NaN, -Infinity, 0, -0][Math.floor(4 * random())];
          return random() < 0.5 ? Math.round(x) : x;
        });
        const logits = logitsOf(type, [batch, rows, vocabulary], numbers);
        // Each way for all texts, and three ways beside each other.
        const three = [0, 4, 8, 12, 15].map((at) =>
          [0, 1, 2, 3, 4].map((option) => [0, 1, 3].map((text) => ways[at + text][option])),
        );
        for (const [temperature, topK, minP, topP, penalty] of [...ways, ...three]) {
          const drawing = { temperature, topK, topP, minP, penalty, seeds: [3, -4, 2 ** 45], counters: [0, 17, 4096] };
          const [actual, expected] = [await draw(device, logits, drawing), await draw(host, logits, drawing)];
          expect(actual, `${vocabulary} tokens, ${JSON.stringify(drawing)}`).toEqual(expected);
        }
      }
      expect(device.explain()).toMatch(/by sampleCandidates, pickToken/);
      await Promise.all([device.release(), host.release()]);
    },
  );

  test("nothing to choose by is no token", async () => {
    const session = await InferenceSession.create(model("float32"), { backend: "webgpu", fallback: "never" });
    const rows = [NaN, NaN, NaN, -Infinity, NaN, -Infinity, 1, Infinity, 0];
    const drawing = { seeds: [1, 1, 1], counters: [0, 0, 0] };
    for (const [temperature, topK, minP, topP, penalty] of ways) {
      const options = { ...drawing, temperature, topK, topP, minP, penalty };
      const { tokens, seen } = await draw(session, logitsOf("float32", [3, 1, 3], rows), options);
      expect(tokens).toEqual([-1, -1, -1]);
      expect(seen).toEqual(Int32Array.of(1, 1, 1));
    }
    await session.release();
  });

  test.each([
    ["all", 0.8, 0, 0, 1],
    ["the likeliest 5", 1.2, 5, 0, 1],
    ["a least share", 1, 0, 0.15, 1],
    ["a nucleus of the likeliest 7", 1.1, 7, 0, 0.8],
  ] as const)("draws from the softmax of %s", async (_, temperature, topK, minP, topP) => {
    const session = await InferenceSession.create(model("float32"), { backend: "webgpu", fallback: "never" });
    const scores = Float32Array.of(1, 3, 2, -1, 2.5, 0.5, 2.2, -3, 1.5, 0);
    const [batch, rounds] = [100, soak ? 20 : 5];
    const order = [...scores.keys()].toSorted((a, b) => scores[b] - scores[a]);
    const weightOf = (token: number): number => Math.exp((scores[token] - 3) / temperature);
    const likeliest = topK > 0 ? order.slice(0, topK) : order;
    const whole = likeliest.reduce((sum, token) => sum + weightOf(token), 0);
    const before = likeliest.map((_token, at) => likeliest.slice(0, at).reduce((sum, each) => sum + weightOf(each), 0));
    const kept = likeliest.filter((token, at) => weightOf(token) >= minP && before[at] < topP * whole);
    const weights = [...scores].map((score, token) => (kept.includes(token) ? Math.exp(score / temperature) : 0));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const counts = new Array<number>(scores.length).fill(0);
    const logits = logitsOf(
      "float32",
      [batch, 1, scores.length],
      Float32Array.from({ length: batch * scores.length }, (__, at) => scores[at % scores.length]),
    );
    for (let round = 0; round < rounds; round++) {
      const seeds = Array.from({ length: batch }, (__, text) => text % 5);
      const counters = Array.from({ length: batch }, (__, text) => round * 20 + Math.floor(text / 5));
      const drawing = { temperature, topK, topP, minP, penalty: 1, seeds, counters };
      for (const token of (await draw(session, logits, drawing)).tokens) counts[token]++;
    }
    const draws = batch * rounds;
    let square = 0;
    weights.forEach((weight, token) => {
      const expected = (draws * weight) / total;
      if (weight === 0) expect(counts[token]).toBe(0);
      else square += (counts[token] - expected) ** 2 / expected;
    });
    // A thousandth of all draws that are right exceed it: the mean, and 3.1 deviations above.
    const freedom = kept.length - 1;
    expect(square).toBeLessThan(freedom + 3.1 * Math.sqrt(2 * freedom) + 5);
    await session.release();
  });
});
