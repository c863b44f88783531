// Texts that are made at the same time on a GPU share its steps through every door, however they began: what a step costs is the weights that it reads.
import { afterAll, beforeAll, describe, expect, type MockInstance, test, vi } from "vitest";
import { globals } from "webgpu";
import { PagedDecoder } from "../../src/engine/paged-decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { hubFolder } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { WatchedSession } from "../support/watched-session.js";

describe.skipIf(noWebgpu !== undefined)("on pages", () => {
  let folder: ReturnType<typeof hubFolder>;
  let lm: CausalLM;
  let steps: MockInstance<PagedDecoder["begin"]>;
  /** Texts of each step that was begun since this was asked last. */
  const told = (): number[] => {
    const texts = steps.mock.calls.flatMap(([parts, , count]) => new Array<number>(count).fill(parts.length));
    steps.mockClear();
    return texts;
  };
  beforeAll(async () => {
    folder = hubFolder("llama", {
      "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
      "generation_config.json": { eos_token_id: 256 },
    });
    lm = await CausalLM.load(folder.path, { backend: "webgpu", cache: "paged", context: 160, blocks: 600, keep: 0 });
    steps = vi.spyOn(PagedDecoder.prototype, "begin");
  });
  afterAll(async () => {
    vi.restoreAllMocks();
    await lm?.release();
    folder?.remove();
  });

  const promptOf = (text: number, length: number): number[] =>
    Array.from({ length }, (_, at) => 1 + ((31 * text + 7 * at) % 250));
  const tokens = 24;
  const options = { temperature: 0, ignoreEnd: true, maxTokens: tokens } as const;

  test("a batch whose prompts are more than one step reads", async () => {
    const prompts = Array.from({ length: 24 }, (_, text) => promptOf(text, 110 + text));
    told();
    const texts = prompts.map((): number[] => []);
    for await (const { sample, token } of lm.generateBatch(prompts, options)) texts[sample].push(token);
    expect(texts.map(({ length }) => length)).toEqual(prompts.map(() => tokens));
    // The prompts take some steps; texts that were read first end some steps before the last ones.
    const made = told();
    expect(made.length).toBeLessThanOrEqual(tokens + 6);
    expect(made.filter((count) => count === prompts.length).length).toBeGreaterThanOrEqual(tokens - 6);
    const alone: number[] = [];
    for await (const { token } of lm.generate(prompts[3], options)) alone.push(token);
    expect(texts[3]).toEqual(alone);
  });

  test("texts of callers that do not know of each other", async () => {
    told();
    const made = await Promise.all(
      Array.from({ length: 6 }, async (_, text) => {
        let count = 0;
        for await (const _token of lm.generate(promptOf(text, 12), options)) count++;
        return count;
      }),
    );
    expect(made).toEqual(made.map(() => tokens));
    expect(told().length).toBeLessThanOrEqual(tokens + 6);
  });

  test("a program is bound once, wherever the tokens of its runs come from", async () => {
    const groups = vi.spyOn(
      (globals as { readonly GPUDevice: typeof GPUDevice }).GPUDevice.prototype,
      "createBindGroup",
    );
    const make = async (prompts: readonly (readonly number[])[]): Promise<void> => {
      for await (const _ of lm.generateBatch(prompts, { ...options, maxTokens: 6 }));
    };
    await make([promptOf(1, 12)]);
    await make([promptOf(2, 12), promptOf(3, 12)]);
    // Steps of one and two tokens have read what the run before drew: now what the host names.
    groups.mockClear();
    await make([[7]]);
    await make([[9], [8]]);
    expect(groups).not.toHaveBeenCalled();
  });

  test("rows of a slot change places as if all at once", async () => {
    const model = buildModel({
      opset: { "": 21 },
      inputs: [value("x", "int64", ["rows", 1])],
      outputs: [value("y")],
      initializers: [initializer("zero", new Tensor("int64", [0n], [1]))],
      nodes: [node("Add", ["x", "zero"], ["y"])],
    });
    const session = await WatchedSession.open(writeModel(model));
    const [slot, other] = [session.createSlot("x", [6, 1]), session.createSlot("x", [3, 1])];
    const host = (...values: number[]): Tensor => new Tensor("int64", values.map(BigInt), [values.length, 1]);
    const rows = async (of: Tensor): Promise<number[]> =>
      Array.from((await session.run({ x: of })).y.data as BigInt64Array, Number);
    session.fillSlot(slot, [{ from: host(10, 11, 12, 13, 14, 15), start: 0, at: 0, count: 6 }]);
    session.fillSlot(other, [{ from: slot, start: 2, at: 0, count: 3 }]);
    session.fillSlot(slot, [
      { from: slot, start: 3, at: 0, count: 2 },
      { from: host(20, 21), start: 1, at: 2, count: 1 },
      { from: slot, start: 0, at: 3, count: 2 },
      { from: other, start: 2, at: 5, count: 1 },
    ]);
    expect(await rows(slot)).toEqual([13, 14, 21, 10, 11, 14]);
    expect(await rows(other)).toEqual([12, 13, 14]);
    await session.release();
  });
});
