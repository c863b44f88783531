// How tokens are chosen: distributions against their definitions, penalties, seeds, and options that mean nothing.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { gumbel, mostNoise, threefry } from "../../src/base/token-noise.js";
import { likeliestTokens, logSumExp } from "../../src/engine/log-probability.js";
import { readSampling, Sampler, type SamplingOptions } from "../../src/engine/sampling.js";
import { seededRandom } from "../../src/graph/call.js";

const logits = Float32Array.of(1, 3, 2, -1, 3, 0.5);

/** How often each token is chosen in `count` tries. */
function frequencies(options: SamplingOptions, count = 20_000, from = logits): number[] {
  const sampler = new Sampler(readSampling({ seed: 7, ...options }));
  const counts = new Array<number>(from.length).fill(0);
  for (let i = 0; i < count; i++) counts[sampler.choose(from)]++;
  return counts.map((times) => times / count);
}

/** The softmax of some logits over the tokens that remain. */
function expected(kept: readonly number[], temperature = 1, from = logits): number[] {
  const weights = [...from].map((logit, token) => (kept.includes(token) ? Math.exp(logit / temperature) : 0));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

const close = (actual: readonly number[], wanted: readonly number[]): void =>
  wanted.forEach((share, token) => expect(Math.abs(actual[token] - share), `token ${token}`).toBeLessThan(0.015));

describe("distributions", () => {
  const all = [0, 1, 2, 3, 4, 5];
  test("temperature 0 takes the first of the likeliest", () => expect(frequencies({}, 10)[1]).toBe(1));
  test("temperature 0 finds it wherever it stands, beside NaN too", () => {
    for (let length = 1; length <= 14; length++)
      for (let at = 0; at < length; at++)
        for (const other of [NaN, -Infinity, -2]) {
          const from = new Float32Array(length).fill(other);
          from.fill(-1, at, Math.min(length, at + 6));
          expect(frequencies({}, 1, from)[at], `${length} logits, ${other} but from ${at} on`).toBe(1);
        }
    expect(() => frequencies({}, 1, new Float32Array(5).fill(NaN))).toThrow(/the largest is NaN/);
  });
  test("temperature 1 is the model's own", () => close(frequencies({ temperature: 1 }), expected(all)));
  test("a high temperature is flatter", () => close(frequencies({ temperature: 3 }), expected(all, 3)));
  test("top-k, with a tie at its edge", () => {
    close(frequencies({ temperature: 1, topK: 3 }), expected([1, 4, 2]));
    close(frequencies({ temperature: 1, topK: 1 }), expected([1]));
    close(frequencies({ temperature: 1, topK: 99 }), expected(all));
  });
  test("top-p keeps as many as it takes", () => {
    close(frequencies({ temperature: 1, topP: 0.5 }), expected([1, 4]));
    close(frequencies({ temperature: 1, topP: 0.9 }), expected([1, 4, 2]));
    close(frequencies({ temperature: 1, topP: 1e-9 }), expected([1]));
  });
  test("top-p counts within top-k", () =>
    close(frequencies({ temperature: 1, topK: 3, topP: 0.99 }), expected([1, 4, 2])));
  test("min-p", () => close(frequencies({ temperature: 1, minP: 0.2 }), expected([1, 4, 2])));
  test("minus infinity is never chosen, and one choice is none", () => {
    const only = Float32Array.of(-Infinity, -Infinity, 2, -Infinity);
    expect(frequencies({ temperature: 2, topP: 0.5, topK: 2 }, 50, only)[2]).toBe(1);
  });
});

test("the same seed gives the same choices, another seed others", () => {
  const run = (seed: number): number[] => {
    const sampler = new Sampler(readSampling({ temperature: 2, seed }));
    return Array.from({ length: 40 }, () => sampler.choose(logits));
  };
  expect(run(1)).toEqual(run(1));
  expect(run(1)).not.toEqual(run(2));
});

test("penalties change what was there, and leave the logits alone", () => {
  const before = [...logits];
  const repeated = new Sampler(readSampling({ repetitionPenalty: 2 }), [1]);
  expect(repeated.choose(logits)).toBe(4);
  repeated.accept(4);
  expect(repeated.choose(logits)).toBe(2); // 3 / 2 = 1.5 is below 2
  const present = new Sampler(readSampling({ presencePenalty: 1.5 }), [1]);
  expect(present.choose(logits)).toBe(1); // the prompt does not count
  present.accept(1);
  expect(present.choose(logits)).toBe(4);
  const frequent = new Sampler(readSampling({ frequencyPenalty: 0.6 }));
  const chosen = Array.from({ length: 4 }, () => {
    const token = frequent.choose(logits);
    frequent.accept(token);
    return token;
  });
  expect(chosen).toEqual([1, 4, 1, 4]);
  expect([...logits]).toEqual(before);
});

test("log-probabilities sum to one and are sorted", () => {
  const top = likeliestTokens(logits, 6);
  expect(top.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 6);
  expect(top.map(({ token }) => token)).toEqual([1, 4, 2, 0, 5, 3]);
  expect(likeliestTokens(logits, 2)).toHaveLength(2);
  expect(logSumExp(Float32Array.of(1000, 1000))).toBeCloseTo(1000 + Math.LN2, 3);
});

test("the sum of exponentials is that of Math.exp, whatever the logits", () => {
  const random = seededRandom(7);
  for (const width of [0, 1, 30, 400]) {
    const many = Float32Array.from({ length: 5000 }, () => (random() - 0.5) * width);
    many[17] = -Infinity;
    const most = Math.max(...many);
    const sum = many.reduce((before, logit) => before + Math.exp(logit - most), 0);
    expect(Math.abs(logSumExp(many) - most - Math.log(sum))).toBeLessThan(1e-9);
  }
  expect(logSumExp(Float32Array.of(1, NaN))).toBeNaN();
});

test("impossible options are refused by name and value", () => {
  const bad: [SamplingOptions, RegExp][] = [
    [{ temperature: -1 }, /temperature must be a number from 0 on, got -1/],
    [{ temperature: NaN }, /temperature .* got NaN/],
    [{ topK: 1.5 }, /topK must be a whole number from 0 on, got 1.5/],
    [{ topP: 0 }, /topP must be above 0 and at most 1, got 0/],
    [{ topP: 2 }, /topP .* got 2/],
    [{ minP: -0.1 }, /minP must be from 0 to 1/],
    [{ repetitionPenalty: 0 }, /repetitionPenalty must be a number above 0/],
    [{ presencePenalty: Infinity }, /presencePenalty must be a finite number/],
    [{ seed: 0.5 }, /seed must be a whole number/],
  ];
  for (const [options, message] of bad) {
    expect(() => readSampling(options)).toThrow(message);
    expect(() => readSampling(options)).toThrow(InsituError);
  }
});

test("the generator gives the answers that its authors publish", () => {
  const words = (hex: string): [number, number] =>
    hex.split(" ").map((word) => Number.parseInt(word, 16)) as [number, number];
  const known: [key: string, counter: string, words: string][] = [
    ["00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"],
    ["ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"],
    ["13198a2e 03707344", "243f6a88 85a308d3", "c4923a9c 483df7a0"],
  ];
  for (const [key, counter, result] of known) expect(threefry(words(key), words(counter))).toEqual(words(result));
  for (const word of [0, 1, 2 ** 31, 2 ** 32 - 1]) {
    expect(Number.isFinite(gumbel(word))).toBe(true);
    expect(gumbel(word)).toBeLessThanOrEqual(mostNoise);
  }
});
