// The one class that runs text decoders: what each input is fed, on linear caches and on pages, against numbers written by hand; what is
// refused; and whose memory the logits lie in.
import { afterEach, expect, test, vi } from "vitest";
import { Decoder } from "../../src/decoder/decoder.js";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { recentWindow } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { PerHeadState } from "../../packages/eviction/per-head-state.js";
import { type DecoderForm, generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { TensorLike } from "../../src/tensor/tensor-like.js";
import { decoderBytes } from "./support.js";

const sessions: InferenceSession[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.release();
  vi.restoreAllMocks();
});

async function open(model: Uint8Array | Model, change?: (model: Model) => Promise<Model>): Promise<InferenceSession> {
  const bytes = model instanceof Uint8Array ? model : writeModel(model);
  const session = await InferenceSession.create(bytes, { threads: 1, ...(change && { change }) });
  sessions.push(session);
  return session;
}

/** The small decoder with further inputs, which nothing reads. */
function withInputs(inputs: readonly ReturnType<typeof value>[], form: DecoderForm = {}): Model {
  const model = generatedDecoder(smallSizes, form);
  return { ...model, graph: { ...model.graph, inputs: [...model.graph.inputs, ...inputs] } };
}

const further = [
  value("attention_mask", "int64", ["batch", "rows"]),
  value("num_logits_to_keep", "int64", []),
  value("use_cache_branch", "bool", [1]),
];

/** Feeds of the runs from here on, as numbers by name, with their shapes. */
function watch(session: InferenceSession): Record<string, string>[] {
  const seen: Record<string, string>[] = [];
  const run = session.run.bind(session);
  vi.spyOn(session, "run").mockImplementation((feeds, ...others) => {
    const shown = ([name, { type, dims, data }]: [string, TensorLike]): [string, string] => [
      name,
      `${type}[${dims.join(",")}] ${Array.from(data as Iterable<unknown> & TensorLike["data"], Number).join(" ")}`,
    ];
    seen.push(Object.fromEntries(Object.entries(feeds).map(shown)));
    return run(feeds, ...others);
  });
  return seen;
}

test.each(["rows", "heads"] as const)("what linear caches of %s are fed", async (caches) => {
  const session = await open(withInputs(further, { caches }));
  const decoder = new Decoder(session);
  // Fewer rows than a cache has heads, and than a row has numbers.
  const state = session.createState({ dims: { batch: 2, capacity: 3 } });
  const seen = watch(session);
  await decoder.run(state, {
    tokens: [
      [5, 6],
      [7, 8],
    ],
    positions: [0, -1],
    padding: [0, 1],
  });
  expect(seen.pop()).toEqual({
    input_ids: "int64[2,2] 5 6 7 8",
    position_ids: "int64[2,2] 0 1 0 0",
    attention_mask: "int64[2,3] 1 1 0 0 1 0",
    num_logits_to_keep: "int64[] 2",
    use_cache_branch: "bool[1] 1",
  });
  // The state filled in where rows are written; the host may.
  expect(state.lengths).toEqual([2, 2]);
  await decoder.run(state, {
    tokens: [[9], [10]],
    positions: [40, 7],
    rows: { start: [0, 2], valid: [2, 3] },
    keep: 1,
  });
  expect(seen.pop()).toEqual({
    input_ids: "int64[2,1] 9 10",
    position_ids: "int64[2,1] 40 7",
    write_indices: "int64[2] 0 2",
    nonpad_kv_seqlen: "int64[2] 2 3",
    attention_mask: "int64[2,3] 1 1 0 1 1 1",
    num_logits_to_keep: "int64[] 1",
    use_cache_branch: "bool[1] 1",
  });
});

test("what pages are fed", async () => {
  const session = await open(withInputs(further), pages());
  const paged = new PagedState(session, { blocks: 4, blockSize: 2 });
  const [one, two] = [paged.add(), paged.add()];
  const seen = watch(session);
  await paged.step([
    { sequence: one, tokens: [5, 6, 7] },
    { sequence: two, tokens: [8] },
  ]);
  expect(seen.pop()).toMatchObject({
    input_ids: "int64[2,3] 5 6 7 0 0 8",
    position_ids: "int64[2,3] 0 1 2 0 0 0",
    attention_mask: "int64[2,3] 1 1 1 1 0 0",
    num_logits_to_keep: "int64[] 3",
    use_cache_branch: "bool[1] 1",
    slot_mapping: "int64[6] 0 1 2 -1 -1 4",
    seq_lens: "int64[2] 3 1",
  });
  paged.release();
});

test("tokens of another type are read on pages too", async () => {
  const model = generatedDecoder(smallSizes);
  const narrow: Model = {
    ...model,
    graph: {
      ...model.graph,
      inputs: model.graph.inputs.map((input) =>
        input.name === "input_ids" ? value("input_ids", "int32", ["batch", "sequence"]) : input,
      ),
      nodes: [
        node("Cast", ["input_ids"], ["wide_ids"], { to: 7 }),
        ...model.graph.nodes.map((each) => ({
          ...each,
          inputs: each.inputs.map((name) => (name === "input_ids" ? "wide_ids" : name)),
        })),
      ],
    },
  };
  const [expected, got] = await Promise.all(
    [model, narrow].map(async (each) => {
      const paged = new PagedState(await open(each, pages()), { blocks: 4 });
      return (await paged.step([{ sequence: paged.add(), tokens: [3, 1, 4] }]))[0].rows;
    }),
  );
  expect(got).toEqual(expected);
});

test("an input that no decoder has is named, when a decoder is wanted", async () => {
  const odd = withInputs([value("inputs_embeds", "float32", ["batch", "sequence", 4])]);
  const message = `input "inputs_embeds" is not one of a text decoder's; known are input_ids, position_ids, attention_mask, write_indices, nonpad_kv_seqlen, logit_rows, num_logits_to_keep, use_cache_branch, slot_mapping, block_tables, seq_lens, query_starts, state_slots and caches`;
  const session = await open(odd);
  expect(() => new Decoder(session)).toThrow(message);
  expect(() => new EvictingState(session, { capacity: 8, policy: recentWindow() })).toThrow(message);
  // Pages serve runs of the caller's own making; a step is not one.
  const paged = new PagedState(await open(odd, pages()), { blocks: 4 });
  const sequence = paged.add();
  expect(await paged.run([{ sequence, tokens: [1, 2] }], async ({ positions }) => positions)).toEqual([0]);
  await expect(paged.step([{ sequence, tokens: [3] }])).rejects.toThrow(message);
  expect(sequence.length).toBe(2);
});

test("rows under a mask with a column for each are never evicted, whoever reads it", async () => {
  const session = await open(withInputs(further));
  expect(() => new EvictingState(session, { capacity: 8, policy: recentWindow() })).toThrow(
    "evicting: the model reads a mask with a column for each row: its rows cannot be evicted",
  );
});

test("the logits of a step stay what they are; those of a decoder that may overwrite them do not", async () => {
  const session = await open(decoderBytes());
  for (const overwriteLogits of [false, true]) {
    const decoder = new Decoder(session, { overwriteLogits });
    const state = decoder.createState(1, 8);
    const first = (await decoder.run(state, { tokens: [[1]], positions: [0] })).at(0);
    const before = first.slice();
    const second = (await decoder.run(state, { tokens: [[2]], positions: [1] })).at(0);
    expect(first).toEqual(overwriteLogits ? second : before);
    expect(second).not.toEqual(before);
    state.release();
  }
  const paged = new PagedState(await open(decoderBytes(), pages()), { blocks: 4 });
  const sequence = paged.add();
  const heads = new PerHeadState(await open(decoderBytes(), pages({ perHead: true })), { blocks: 8 });
  const text = heads.add();
  for (const step of [
    (token: number) => paged.step([{ sequence, tokens: [token] }]),
    (token: number) => heads.step([{ text, tokens: [token] }]),
  ]) {
    const [{ last }] = await step(1);
    const before = last.slice();
    const [{ last: next }] = await step(2);
    expect(last).toEqual(before);
    expect(next).not.toEqual(before);
  }
});
