// What a session takes of a GPU: shaders are compiled side by side and once; a token makes nothing, however many there were; all is given back.
// Few rounds in the tests, many in the soak, where the host's own memory is watched too. One device serves the suite, counted from its start.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { writeModel } from "../../src/onnx/write.js";
import { noWebgpu } from "../support/backends.js";
import { step, tokenAt, tokens } from "../support/decoding.js";
import { Made, PlacedSession } from "../support/gpu.js";
import { soak } from "../support/soak.js";

const decoder = writeModel(generatedDecoder(smallSizes));

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes of the host's own, once everything is collected that nobody holds. */
async function heldByHost(): Promise<number> {
  for (let round = 0; round < 4; round++) {
    collect();
    await new Promise((done) => setTimeout(done, 20));
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  const counted = new Made();
  const platform = PlacedSession.place(counted.gpu);

  test("shaders are compiled side by side and once, and progress is told", async () => {
    const told: (readonly [number, number])[] = [];
    const webgpu = { onPipelines: (ready: number, total: number) => told.push([ready, total]) };
    const session = await PlacedSession.on(platform, decoder, { webgpu });
    const state = session.createState({ dims: { batch: 1, capacity: 8 } });
    await step(session, state, tokens(0, 3));
    const { pipelines } = counted.made;
    expect(counted.mostCompiling).toBeGreaterThan(1);
    expect(counted.mostCompiling).toBeLessThanOrEqual(32);
    expect(told).toEqual(Array.from({ length: pipelines }, (_, at) => [at + 1, pipelines]));
    expect(session.explain()).toMatch(
      new RegExp(`${pipelines} pipelines: this session waited \\d+ ms for ${pipelines} of them`),
    );
    const [, byKernel] = /pipelines by kernel: (.*)/.exec(session.explain())!;
    const counts = byKernel.split(", ").map((part) => part.split(" "));
    expect(counts.flatMap(([count, name]) => Array<string>(Number(count)).fill(name)).sort()).toEqual(
      counted.kernels.toSorted(),
    );
    const most = counts.map(([count]) => Number(count));
    expect(most).toEqual(most.toSorted((a, b) => b - a));
    // Another session on the same device, and another state of the first, find what is there.
    const other = await PlacedSession.on(platform, decoder);
    await step(other, other.createState({ dims: { batch: 1, capacity: 8 } }), tokens(0, 3));
    await step(session, session.createState({ dims: { batch: 1, capacity: 8 } }), tokens(0, 3));
    expect(counted.made.pipelines).toBe(pipelines);
    expect(new Set(counted.shaders).size).toBe(counted.shaders.length);
    expect(told).toHaveLength(pipelines);
    await Promise.all([session.release(), other.release()]);
  });

  test("a callback that is none is refused", async () => {
    const webgpu = { onPipelines: 3 } as object;
    await expect(PlacedSession.on(platform, decoder, { webgpu })).rejects.toThrow(
      /option webgpu.onPipelines must be a function, got 3/,
    );
  });

  test("a token makes nothing on the device, and nothing that lasts on the host", async () => {
    const [count, capacity] = soak ? [5000, 256] : [24, 20];
    const session = await PlacedSession.on(platform, decoder, { inPlace: "require" });
    const state = session.createState({ dims: { batch: 1, capacity } });
    await step(session, state, tokens(0, 4));
    // Where the cache is full the text goes on from its beginning.
    const token = async (): Promise<void> => {
      if (state.lengths[0] === capacity) state.rewind(4);
      await step(session, state, [tokenAt(state.lengths[0])]);
    };
    for (let at = 0; at < 4; at++) await token();
    const [made, bytes, allocated] = [{ ...counted.made }, counted.bytes, session.memory.allocatedBytes];
    const before = soak ? await heldByHost() : 0;
    for (let at = 0; at < count; at++) await token();
    expect(counted.made).toEqual(made);
    expect(counted.bytes).toBe(bytes);
    expect(session.memory.allocatedBytes).toBe(allocated);
    // A few bytes a token would be seen: results of 5,000 tokens are collected, or the host holds megabytes more.
    if (soak) expect((await heldByHost()) - before).toBeLessThan(2 << 20);
    await session.release();
  });

  test("a session gives back what it took, with states, forks and programs of several shapes", async () => {
    const round = async (): Promise<void> => {
      const session = await PlacedSession.on(platform, decoder);
      const state = session.createState({ dims: { batch: 1, capacity: 32 } });
      await step(session, state, tokens(0, 12));
      const fork = state.fork();
      await step(session, state, [3]);
      await step(session, fork, [4]);
      await session.release();
    };
    await round();
    expect(counted.bytes).toBe(0);
    const { pipelines } = counted.made;
    const before = soak ? await heldByHost() : 0;
    for (let at = 0; at < (soak ? 100 : 2); at++) {
      await round();
      expect(counted.bytes).toBe(0);
    }
    // The device waits for the next session: nothing is compiled again.
    expect(counted.made.pipelines).toBe(pipelines);
    if (soak) expect((await heldByHost()) - before).toBeLessThan(4 << 20);
  });

  test("memory in between is told whole, with what programs of smaller shapes are bound to", async () => {
    const session = await PlacedSession.on(platform, decoder);
    const told = (): number => Number(/memory in between: (\d+) bytes/.exec(session.explain())![1]);
    const seen: number[] = [];
    for (const count of [1, 12, 200]) {
      const state = session.createState({ dims: { batch: 1, capacity: 256 } });
      await step(session, state, tokens(0, count));
      expect(told()).toBe(counted.bytesOf.get("memory in between") ?? 0);
      seen.push(told());
    }
    expect(seen.at(-1)).toBeGreaterThan(seen[0]);
    await session.release();
  });

  test.skipIf(!soak)("steps share their memory in between: it does not grow with the layers", async () => {
    const taken = async (layers: number): Promise<number> => {
      const model = writeModel(generatedDecoder({ ...smallSizes, layers }));
      const session = await PlacedSession.on(platform, model);
      const state = session.createState({ dims: { batch: 1, capacity: 512 } });
      await step(session, state, tokens(0, 4));
      const [, bytes] = /memory in between: (\d+) bytes/.exec(session.explain())!;
      await session.release();
      return Number(bytes);
    };
    const [two, four] = [await taken(2), await taken(4)];
    expect(two).toBeGreaterThan(0);
    expect(four).toBe(two);
  });
});
