// PagedAttention on WebGPU against Attention over the same rows without pages: layouts, tables for each head, bytes with scales, windows.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { float } from "../../../src/onnx/build.js";
import { type PagedCase, pagedCase } from "../../paged/attention-case.js";
import { packedCase } from "../../paged/packed-case.js";
import { readNumbers } from "../../../src/tensor/access.js";
import { noWebgpu } from "../../support/backends.js";
import { largestDifference } from "../../support/compare.js";
import { keepDevice } from "../../support/device.js";
import { numbersOf, type OneNode } from "./one-node.js";
import { soak } from "../../support/soak.js";

const attributesOf = (attrs: ReturnType<typeof pagedCase>["attrs"]): OneNode["attrs"] =>
  Object.fromEntries(
    Object.entries(attrs).map(([name, each]) => [
      name,
      typeof each === "object" && "float" in each ? float(each.float) : (each as number | string),
    ]),
  );

describe.skipIf(noWebgpu !== undefined)("PagedAttention on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  async function problemsOf(caseOf: (seed: number) => PagedCase, count: number): Promise<string[]> {
    const problems: string[] = [];
    let ran = 0;
    for (let seed = 0; ran < count; seed++) {
      const { text, attrs, inputs, y, tolerance } = caseOf(seed);
      if (inputs[1]!.type.startsWith("float8") || y.size === 0) continue;
      // Rows of the output that are no whole words have no kernel.
      if (y.type !== "float32" && inputs[2]!.shape.at(-1)! % 2 !== 0) continue;
      ran++;
      const call = { op: "PagedAttention", domain: "insitu", opset: 1, attrs: attributesOf(attrs), inputs };
      const apart = largestDifference(
        await numbersOf(call, /attentionTiles|attentionAtOnce|attentionPrefill|attentionInHalves|attentionInMatrices/),
        readNumbers(y),
      );
      if (!(apart <= Math.max(tolerance, 1e-5))) problems.push(`seed ${seed}: ${text}: ${apart} apart`);
    }
    return problems;
  }

  test("random calls", async () => {
    expect(await problemsOf(pagedCase, 8)).toEqual([]);
  });

  test("packed batches, of one query and of several in one call", async () => {
    expect(await problemsOf(packedCase, soak ? 60 : 4)).toEqual([]);
  });

  test("packed batches of many queries: more than a tile has", async () => {
    expect(await problemsOf((seed) => packedCase(100 + seed, 70), soak ? 30 : 2)).toEqual([]);
  });
});
