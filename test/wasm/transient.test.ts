// Memory that steps take turns with: never twice within a step, the same from step to step, and a prompt through many layers takes no more
// of it than through one.
import { expect, test, vi } from "vitest";
import { WasmMemory } from "../../src/backends/wasm/memory.js";
import { TransientBlocks } from "../../src/backends/wasm/transient.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { tokenFeeds } from "../support/decoding.js";

test("a step's blocks are apart from each other, and the next step's are the same", () => {
  const taken: [number, number][] = [];
  let next = 1024;
  const blocks = new TransientBlocks((bytes) => {
    taken.push([next, bytes]);
    next += bytes;
    return next - bytes;
  });
  const sizes = [100, 5000, 0, 5000, 100, 70_000];
  const step = (): number[] => {
    const lent = new Set<{ address: number; bytes: number }>();
    return sizes.map((bytes) => blocks.lend(bytes, lent));
  };
  const first = step();
  expect(new Set(first).size).toBe(sizes.length);
  first.forEach((address, at) => {
    const [, bytes] = taken.find(([start]) => start === address)!;
    expect(bytes).toBeGreaterThanOrEqual(sizes[at]);
  });
  const before = taken.length;
  expect(step()).toEqual(first);
  expect(taken.length).toBe(before);
  // Shorter needs are met by what is there.
  expect(taken.map(([start]) => start)).toContain(blocks.lend(60_000, new Set()));
});

test("a prompt through many layers takes the temporaries of one", async () => {
  const used = async (layers: number): Promise<number> => {
    const sizes = { ...smallSizes, layers, hidden: 64, headSize: 16, intermediate: 512, vocabulary: 64 };
    const session = await InferenceSession.create(writeModel(generatedDecoder(sizes)), { threads: 1 });
    const state = session.createState({ dims: { batch: 1, capacity: 256 } });
    const take = vi.spyOn(WasmMemory.prototype, "take");
    await session.run(tokenFeeds([Array.from({ length: 256 }, (_, at) => at % 64)], [0]), { state });
    const bytes = take.mock.calls.reduce((sum, [each]) => sum + each, 0);
    take.mockRestore();
    await session.release();
    return bytes;
  };
  const [few, many] = [await used(2), await used(8)];
  expect(many).toBeLessThan(few * 1.2);
});
