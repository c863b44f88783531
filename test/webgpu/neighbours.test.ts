// What ends or fails on a GPU reaches nobody else there: a session that is released with work in line, memory that the device does not have or
// loses, states of one session whose runs are asked for at once. What each says is the reference's.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { webgpu } from "../../src/entry/webgpu.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { makePlan } from "../../src/plan/plan.js";
import { preparedGraphOf } from "../../src/session/load.js";
import type { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { runOn } from "../support/executable.js";
import { deviceOf, PlacedSession, proxied } from "../support/gpu.js";
import {
  cachedModels,
  type CachedModel,
  type Carried,
  concatModel,
  emptyCaches,
  floats,
  said,
} from "./beside/models.js";

/** Some buffers are refused by their name while there is no memory for them, some are kept for tests to destroy. */
let hasMemory = false;
const doomed: GPUBuffer[] = [];
const platform = PlacedSession.place(
  deviceOf((device) =>
    proxied(device, {
      createBuffer: (descriptor: GPUBufferDescriptor) => {
        const label = descriptor.label ?? "";
        const buffer = device.createBuffer(
          label.includes("stillborn") && !hasMemory ? { ...descriptor, usage: 1 | 128 } : descriptor,
        );
        if (label.includes("doomed")) doomed.push(buffer);
        return buffer;
      },
    }),
  ),
);
const open = (bytes: Uint8Array, options = {}): Promise<Session> => PlacedSession.on(platform, bytes, options);

/** A text on one state, beside the same on the reference with caches carried by hand. */
class Text {
  readonly #session: Session;
  readonly #model: CachedModel;
  readonly state: State;
  #carried: Carried;
  #steps = 0;

  constructor(session: Session, model: CachedModel, seed = 0) {
    this.#session = session;
    this.#model = model;
    this.state = session.createState();
    this.#carried = emptyCaches(model);
    this.#steps = seed;
  }

  /** Asks for a run; what is to be compared with what it gives. */
  async step(): Promise<void> {
    const model = this.#model;
    const x = Array.from({ length: model.rowSize }, (_, at) => Math.cos(at + 5 * this.#steps));
    this.#steps++;
    const running = this.#session.run(model.feeds(x, this.#carried.rows), { state: this.state });
    const { y, after } = await said(model, this.#carried, x);
    this.#carried = after;
    const { y: own } = await running;
    expect(largestDifference((await own.getData()) as Float32Array, y)).toBeLessThan(1e-5);
  }
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  const { concat, scatter } = cachedModels;

  test.each(["prefer", "never"] as const)(
    "runs of several states that are asked for at once, inPlace: %s",
    async (inPlace) => {
      for (const model of [concat, scatter]) {
        const session = await open(model.bytes, { inPlace });
        const texts = [1, 2, 3].map((seed) => new Text(session, model, 10 * seed));
        for (let round = 0; round < 3; round++) await Promise.all(texts.map((text) => text.step()));
        await session.release();
      }
    },
  );

  /** What is left undone when a session is released. */
  const left: Readonly<Record<string, (session: Session, state: State) => unknown>> = {
    "a cache that is moved": (session, state) => session.run(concat.feeds([1, 2, 3, 4, 5, 6, 7, 8], 0), { state }),
    "a cache that was set": (_, state) => state.set("past", floats(new Float32Array(16), [1, 2, 2, 4])),
    "a cache that is read": (_, state) => state.get("past").getData(),
    "a state that is saved": (_, state) => state.save(),
    "a state that is forked and released": (_, state) => {
      state.fork().set("past", floats(new Float32Array(16), [1, 2, 2, 4]));
      state.release();
    },
  };

  test.each(Object.keys(left))("a session that is released with work in line: %s", async (name) => {
    const neighbour = await open(scatter.bytes, { inPlace: "require" });
    const text = new Text(neighbour, scatter);
    await text.step();
    const session = await open(concat.bytes);
    const undone = left[name](session, session.createState());
    await session.release();
    for (let round = 0; round < 3; round++) await text.step();
    await undone;
    await neighbour.release();
  });

  test("memory that a device refuses or loses is the failure of its session alone", async () => {
    const neighbour = await open(scatter.bytes, { inPlace: "require" });
    const text = new Text(neighbour, scatter);
    await text.step();
    const heavy = buildModel({
      opset: 24,
      inputs: [value("x", "float32", [1, 4])],
      outputs: [value("y", "float32", [1, 3])],
      initializers: [initializer("stillborn", floats(new Float32Array(12).fill(2), [4, 3]))],
      nodes: [node("MatMul", ["x", "stillborn"], ["y"])],
    });
    const failing: readonly (() => Promise<unknown>)[] = [
      // A weight, and caches that are set while nobody waits.
      async () => {
        const session = await open(writeModel(heavy));
        const run = async (): Promise<unknown> => (await session.run({ x: floats([1, 2, 3, 4], [1, 4]) }))["y"].data;
        const failure: unknown = await run().catch((error: unknown) => error);
        // Who asks again asks the device again.
        hasMemory = true;
        expect(await run()).toEqual(Float32Array.of(20, 20, 20));
        hasMemory = false;
        await session.release();
        throw failure;
      },
      async () => {
        const session = await open(concatModel("stillborn").bytes);
        const state = session.createState();
        state.set("stillborn", floats(new Float32Array(16), [1, 2, 2, 4]));
        await state.save().finally(() => session.release());
      },
      async () => {
        const model = concatModel("doomed");
        const session = await open(model.bytes);
        const own = new Text(session, model);
        await own.step();
        for (const buffer of doomed.splice(0)) buffer.destroy();
        await own.step().finally(() => session.release());
      },
    ];
    for (const fail of failing) {
      await expect(fail()).rejects.toBeInstanceOf(InsituError);
      await text.step();
    }
    await neighbour.release();
  });

  test("a backend that is released brings results that are on their way, and refuses what is asked later", async () => {
    const neighbour = await open(scatter.bytes, { inPlace: "require" });
    const text = new Text(neighbour, scatter);
    await text.step();
    const negative = buildModel({
      opset: 24,
      inputs: [value("x", "float32", ["n"])],
      outputs: [value("y", "float32", ["n"])],
      nodes: [node("Neg", ["x"], ["y"])],
    });
    const { graph } = preparedGraphOf(negative);
    const opened = await webgpu.open({ platform });
    const executable = opened.prepare(makePlan(graph, { policy: "prefer" }));
    const x = floats([1, -2, 3], [3]).toView();
    const [cache] = executable.allocate([{ cache: graph.inputs[0], type: "float32", shape: [3] }]);
    executable.copy([{ from: x, to: cache }]);
    const reading = executable.read(cache);
    const running = runOn(executable, [x]);
    const releasing = opened.release();
    executable.copy([{ from: x, to: cache }]);
    const late = executable.read(cache);
    expect((await reading).data).toEqual(Float32Array.of(1, -2, 3));
    expect([...(await running).values()].map(({ data }) => data)).toEqual([Float32Array.of(-1, 2, -3)]);
    await expect(late).rejects.toMatchObject({ code: "released" });
    await Promise.all([releasing, opened.release()]);
    expect(() => executable.allocate([{ cache: graph.inputs[0], type: "float32", shape: [3] }])).toThrow(
      /was released/,
    );
    executable.free(cache);
    await text.step();
    await neighbour.release();
  });
});
