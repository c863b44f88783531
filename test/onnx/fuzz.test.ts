/** Mutated files: whatever the bytes, a model or an InsituError, soon. INSITU_SOAK=1 runs the full count, INSITU_SEED one seed. */
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { ModelProtoSchema } from "./onnx_pb.js";
import { soak } from "../support/soak.js";
import { printModel } from "../../packages/explain/print-model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { everythingBytes } from "./everything.js";
import { mutateBytes, mutateTree } from "./mutate.js";
import { randomIntegers, storedModels, withoutSource } from "./support.js";

const count = soak ? 10_000 : 300;
/** Milliseconds; in the tests only a hang takes longer. */
const longest = soak ? 1000 : 60_000;
const originals = [...storedModels.values(), everythingBytes(), everythingBytes()];

describe("mutated models", () => {
  it(`${count} of them load or are refused`, () => {
    const first =
      process.env.INSITU_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(process.env.INSITU_SEED);
    const last = process.env.INSITU_SEED === undefined ? first + count : first + 1;
    let loaded = 0;
    for (let seed = first; seed < last; seed++) {
      const random = randomIntegers(seed);
      const original = originals[random(originals.length)];
      const bytes =
        random(2) === 0 ? mutateBytes(original, originals, random) : mutateTree(original, ModelProtoSchema, random);
      const start = performance.now();
      try {
        const model = readModel(bytes.slice(), { owned: true });
        loaded++;
        // What was accepted can be shown, and comes out as it went in.
        printModel(model);
        if (Buffer.compare(writeModel(model), bytes) !== 0) throw new Error("written differently from how it was read");
        // With one field and one list changed, everything else still reads the same.
        const { graph } = model;
        const edited = {
          ...model,
          producerName: "fuzz",
          graph: { ...graph, nodes: graph.nodes.map((node) => ({ ...node, name: "n" })) },
        };
        if (!isDeepStrictEqual(withoutSource(readModel(writeModel(edited))), withoutSource(edited)))
          throw new Error("edited, it reads differently");
      } catch (error) {
        if (!(error instanceof InsituError)) throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
        expect(["invalid-model", "external-data"], `seed ${seed}`).toContain(error.code);
      }
      expect(performance.now() - start, `seed ${seed}`).toBeLessThan(longest);
    }
    console.log(`seeds ${first} to ${last - 1}: ${loaded} loaded, ${last - first - loaded} refused`);
    // Mutations that nothing survives, or that break nothing, would test nothing.
    if (last - first > 100) expect(Math.min(loaded, last - first - loaded)).toBeGreaterThan(10);
  });
});
