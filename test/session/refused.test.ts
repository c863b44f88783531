// A run that is refused writes nothing: whatever refuses it, wherever it stands, the caches and lengths are those of before, bit
// for bit, and the next run gives what it would have given.
import { describe, expect, test, vi } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { factOfView } from "../../src/graph/fact.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { operators } from "../../src/ops/index.js";
import { makePlan } from "../../src/plan/plan.js";
import { compileProgram, type Program } from "../../src/plan/program.js";
import { preparedGraphOf } from "../../src/session/load.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { tokenFeeds } from "../support/decoding.js";
import {
  indexTensor,
  type Obstacle,
  obstacles,
  refusingModel,
  type Route,
  routes,
  type Writer,
  writers,
} from "./refused.js";
import { soak } from "../support/soak.js";

const bytesOf = (tensor: Tensor): Uint8Array => {
  const { buffer, byteOffset, byteLength } = tensor.data as Float32Array;
  return Uint8Array.from(new Uint8Array(buffer, byteOffset, byteLength));
};

const contentsOf = (state: State): unknown => ({
  lengths: state.lengths,
  caches: state.names.map((name) => bytesOf(state.get(name))),
});

/** A state whose every byte is told apart from a fresh one's. */
function filledState(session: InferenceSession): State {
  const state = session.createState({ dims: { capacity: 8 } });
  for (const name of state.names) {
    const cache = state.get(name);
    (cache.data as Float32Array).forEach((_, at, data) => (data[at] = 100 + at));
  }
  return state;
}

async function tryIt(writer: Writer, obstacle: Obstacle, route: Route, backend: "wasm" | "reference"): Promise<number> {
  const session = await InferenceSession.create(writeModel(refusingModel(writer, obstacle, route)), {
    backend,
    threads: 1,
  });
  const good = (step: number): Record<string, Tensor> => ({
    ...writer.feeds(step),
    given: indexTensor(obstacle, obstacle.good),
  });
  const [state, undisturbed] = [filledState(session), filledState(session)];
  let refused = 0;
  for (let step = 0; step < 2; step++) {
    for (const bad of obstacle.bad) {
      const before = contentsOf(state);
      const feeds = { ...writer.feeds(step), given: indexTensor(obstacle, bad) };
      const error = await session.run(feeds, { state }).catch((reason: unknown) => reason);
      expect(error, "must be refused").toBeInstanceOf(InsituError);
      expect(["internal", "state-lost"]).not.toContain((error as InsituError).code);
      expect(contentsOf(state)).toEqual(before);
      refused++;
    }
    const [{ y }, expected] = [
      await session.run(good(step), { state }),
      await session.run(good(step), { state: undisturbed }),
    ];
    expect(bytesOf(y)).toEqual(bytesOf(expected.y));
    expect(contentsOf(state)).toEqual(contentsOf(undisturbed));
  }
  await session.release();
  return refused;
}

describe.each(["wasm", "reference"] as const)("on %s", (backend) => {
  for (const [offset, writer] of writers.entries())
    test(`what is refused after ${writer.name} leaves the caches as they were`, async () => {
      let refused = 0;
      for (const [at, obstacle] of obstacles.entries())
        for (const route of soak ? routes : [routes[(at + offset) % routes.length]]) {
          try {
            refused += await tryIt(writer, obstacle, route, backend);
          } catch (error) {
            throw new Error(`${obstacle.name}, ${route}: ${String(error)}`, { cause: error });
          }
        }
      if (soak)
        console.log(
          `${backend}, ${writer.name}: ${refused} runs refused, by ${obstacles.length} obstacles on ${routes.length} ways to them`,
        );
      expect(refused).toBeGreaterThan(100);
    });
});

describe("where the checks are made", () => {
  const programOf = (model: Model, feeds: Record<string, Tensor>): Program => {
    const plan = makePlan(preparedGraphOf(model).graph);
    const inputs = plan.graph.inputs.map(({ name, fact }) => {
      const shape = fact!.shape!.map((dim) => (typeof dim === "number" ? dim : 8));
      return feeds[name] === undefined ? { type: fact!.type, shape } : factOfView(feeds[name].toView());
    });
    return compileProgram(plan, inputs);
  };

  test("a decoder keeps nothing: all that may refuse a run is known before its first write", () => {
    const program = programOf(
      generatedDecoder(smallSizes),
      tokenFeeds(
        Array.from({ length: 8 }, () => [1]),
        new Array<number>(8).fill(0),
      ),
    );
    expect(program.steps.filter(({ overwrites }) => overwrites).length).toBeGreaterThan(1);
    expect(program.steps.filter(({ keeps }) => keeps)).toEqual([]);
    expect(program.checks.length).toBeGreaterThan(2);
  });

  test("what is computed without the cache is computed and checked first, and nothing is kept", () => {
    const [writer, obstacle] = [writers[0], obstacles[0]];
    const { steps } = programOf(refusingModel(writer, obstacle, "computed"), writer.feeds(0));
    const write = steps.find(({ overwrites }) => overwrites)!;
    expect(write.checks.map(({ node }) => node.op.name)).toEqual(["Gather"]);
    expect(write.keeps).toBe(false);
  });

  test("what only the written cache tells is checked when it is known, and the write is kept until then", () => {
    const [writer, obstacle] = [writers[0], obstacles[0]];
    const { steps } = programOf(refusingModel(writer, obstacle, "behind the write"), writer.feeds(0));
    expect(steps.find(({ overwrites }) => overwrites)!.keeps).toBe(true);
  });
});

describe("a run that fails for another reason", () => {
  const failing = async (
    work: (session: InferenceSession, state: State, fail: () => void) => Promise<void>,
  ): Promise<void> => {
    const model = refusingModel(writers[0], obstacles[0], "fed");
    const session = await InferenceSession.create(writeModel(model), { backend: "reference" });
    const gather = operators.find("", "Gather", 27)!;
    const spy = vi.spyOn(gather, "reference");
    try {
      await work(session, filledState(session), () =>
        spy.mockImplementationOnce(() => {
          throw new Error("the roof fell in");
        }),
      );
    } finally {
      spy.mockRestore();
      await session.release();
    }
  };
  const feeds = { ...writers[0].feeds(0), given: indexTensor(obstacles[0], obstacles[0].good) };

  test("marks the state as lost where rows were overwritten, and says so until it is restored", () =>
    failing(async (session, state, fail) => {
      const saved = await state.save();
      const before = contentsOf(state);
      fail();
      await expect(session.run(feeds, { state })).rejects.toThrow(
        /the roof fell in; caches were being written, so the state is lost/,
      );
      for (const use of [() => state.fork(), () => state.get("past"), () => state.rewind(0)])
        expect(use).toThrow(/the state was lost by an earlier run/);
      await expect(state.save()).rejects.toThrow(/the state was lost by an earlier run/);
      await expect(session.run(feeds, { state })).rejects.toMatchObject({ code: "state-lost" });
      await state.restore(saved);
      expect(contentsOf(state)).toEqual(before);
      await session.run(feeds, { state });
      state.release();
    }));

  test("leaves a run without a state as it was: the error itself", () =>
    failing(async (session, _, fail) => {
      fail();
      const past = new Tensor("float32", new Float32Array(64), [2, 8, 4]);
      await expect(session.run({ ...feeds, past })).rejects.toThrow(/^the roof fell in$/);
    }));
});

test("a result that does not fit the tensor it is fetched into refuses the run with nothing written", async () => {
  const model = refusingModel(
    writers[0],
    obstacles.find(({ name }) => name === "Compress")!,
    "fed",
  );
  for (const backend of ["wasm", "reference"] as const) {
    const session = await InferenceSession.create(writeModel(model), { backend, threads: 1 });
    const state = filledState(session);
    const before = contentsOf(state);
    const given = new Tensor("int64", BigInt64Array.of(1n, 0n, 1n, 0n), [4]);
    const y = new Tensor("float32", new Float32Array(4), [1, 4]);
    await expect(session.run({ ...writers[0].feeds(0), given }, { y }, { state })).rejects.toThrow(
      /fetches\["y"\] must be/,
    );
    expect(contentsOf(state)).toEqual(before);
    await session.release();
  }
});
