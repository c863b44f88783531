// A decoder that draws its own tokens: as the reference implementation draws them, and only where the model has what that takes.
import { expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { readSampling, Sampler } from "../../packages/choice/sampling.js";
import { value } from "../../src/onnx/build.js";
import type { Model, ModelValue } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { withSampling } from "../../packages/rewrite/sampling-model.js";
import { samplingInputs } from "../../packages/rewrite/sampling-names.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64, tokenFeeds, tokens } from "../support/decoding.js";

const model = generatedDecoder(smallSizes);

test("draws what the sampler on the host draws from the same logits; without options the likeliest", async () => {
  const session = await InferenceSession.create(writeModel(withSampling(model)), { backend: "reference" });
  const state = session.createState({ dims: { batch: 1, capacity: 32 } });
  const sampler = new Sampler(
    readSampling({ temperature: 1.7, topK: 12, topP: 0.9, minP: 0.02, repetitionPenalty: 1.25, seed: 77 }),
    [3, 33],
  );
  let seen: Tensor = new Tensor(
    "int32",
    [8, 2, ...new Array<number>(Math.ceil(smallSizes.vocabulary / 32) - 2).fill(0)],
    [1, Math.ceil(smallSizes.vocabulary / 32)],
  );
  for (let counter = 0; counter < 12; counter++) {
    const at = state.lengths;
    const { logits, next_token, next_input_ids, next_sampling_seen } = await session.run(
      {
        ...tokenFeeds([tokens(counter, counter + 2)], at),
        [samplingInputs.options]: new Tensor("float32", [1.7, 0.9, 0.02, 1.25], [1, 4]),
        [samplingInputs.topK]: int64([12]),
        [samplingInputs.seed]: int64([77]),
        [samplingInputs.counter]: int64([counter]),
        [samplingInputs.seen]: seen,
      },
      { state },
    );
    const last = (logits.data as Float32Array).slice(-smallSizes.vocabulary);
    expect(next_token.data).toEqual(BigInt64Array.of(BigInt(sampler.choose(last))));
    expect(next_input_ids.data).toEqual(next_token.data);
    sampler.accept(Number((next_token.data as BigInt64Array)[0]));
    seen = next_sampling_seen;
  }
  const { logits, next_token } = await session.run(tokenFeeds([[3]], state.lengths), { state });
  const greedy = new Sampler(readSampling({}));
  expect(next_token.data).toEqual(BigInt64Array.of(BigInt(greedy.choose(logits.data as Float32Array))));
  await session.release();
});

test("models that do not have what it takes stay as they are", () => {
  const graphOf = (change: Partial<Model["graph"]>): Model => ({ ...model, graph: { ...model.graph, ...change } });
  const retyped = (values: readonly ModelValue[], name: string, to: ModelValue): ModelValue[] =>
    values.map((each) => (each.name === name ? to : each));
  const { inputs, outputs } = model.graph;
  const others = [
    graphOf({ inputs: retyped(inputs, "input_ids", value("input_ids", "int32", ["batch", "seq"])) }),
    graphOf({ inputs: retyped(inputs, "input_ids", value("input_ids", "int64", ["seq"])) }),
    graphOf({ outputs: retyped(outputs, "logits", value("logits", "float64", ["batch", "seq", 128])) }),
    graphOf({ outputs: retyped(outputs, "logits", value("logits", "float32", ["batch", 128])) }),
    graphOf({ outputs: [...outputs, value("next_token", "int64", [1])] }),
    // Caches have three dimensions here: which of them the logits are cannot be told.
    graphOf({ outputs: retyped(outputs, "logits", value("scores", "float32", ["batch", "seq", 128])) }),
  ];
  for (const other of others) expect(withSampling(other)).toBe(other);
  // What draws, and what picks rows for the host.
  expect(withSampling(withSampling(model)).graph.nodes.length).toBe(model.graph.nodes.length + 2);
});
