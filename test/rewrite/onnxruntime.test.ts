// Rewritten decoders in onnxruntime-node, where the peers are installed: they load there and give the same logits, step by step.
// The tests run a third of it (test/support/sample-setup.ts), the soak all.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { writeIntegers, writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";
import { handOver, installed, openPeer, type PeerSession, type PeerTensor, takeBack } from "./peer.js";
import { styles } from "./style-list.js";
import { styledDecoder } from "./styles.js";
import { bytesOf, int64, lastRows, models, packedSteps, toleranceOf } from "./exports.js";

const capacity = 48;

describe.skipIf(!installed)("onnxruntime-node runs rewritten decoders", () => {
  for (const model of models.filter((name) => !name.includes("static"))) {
    test(model, async () => {
      const { model: rewritten, report } = rewrite(readModel(bytesOf(model)));
      const session = await openPeer(writeModel(rewritten));
      for (const run of ["step", "padded"]) {
        const steps = packedSteps(model, run);
        if (steps.length === 0) continue;
        const [batch] = steps[0].ids.dims;
        const type = /fp16/.test(model) ? "float16" : "float32";
        const caches = new Map<string, PeerTensor>(
          report.caches.map(({ input }) => {
            const { shape } = session.inputMetadata.find(({ name }) => name === input)!;
            const dims = shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? batch : capacity));
            return [input, handOver(Tensor.fromView(View.allocate(type, dims)))];
          }),
        );
        let lengths = new Array<number>(batch).fill(0);
        for (const [number, { ids, positions, counts, logits }] of steps.entries()) {
          const after = lengths.map((length, sample) => length + counts[sample]);
          const feeds: Record<string, PeerTensor> = {
            input_ids: handOver(ids),
            position_ids: handOver(positions),
            write_indices: handOver(int64(lengths)),
            // Both ways of counting: rows after the write, and valid tokens.
            nonpad_kv_seqlen: handOver(int64(run === "step" ? lengths.map((length) => length + ids.dims[1]) : after)),
            ...Object.fromEntries(caches),
          };
          const results = await session.run(feeds);
          for (const [actual, expected] of lastRows(takeBack(results["logits"]), counts, logits))
            expect(compareViews(actual, expected, { tolerance: toleranceOf(model) }), `${run}${number}`).toBe("");
          for (const { input, output } of report.caches) caches.set(input, results[output]);
          lengths = after;
        }
      }
    });
  }

  test("llama_static_op24, beside the original in onnxruntime-node", async () => {
    const bytes = bytesOf("llama_static_op24");
    const { model, report } = rewrite(readModel(bytes));
    const [theirs, ours] = [await openPeer(bytes), await openPeer(writeModel(model))];
    const empty = (session: PeerSession): Record<string, PeerTensor> =>
      Object.fromEntries(
        report.caches.map(({ input }) => {
          const { shape } = session.inputMetadata.find(({ name }) => name === input)!;
          const dims = shape.map((dim) => (typeof dim === "number" ? dim : 2));
          return [input, handOver(Tensor.fromView(View.allocate("float32", dims)))];
        }),
      );
    const tokens = Array.from({ length: 18 }, (_, at) => (31 * at + 5) % 256); // two samples of nine
    const part = (from: number, to: number): Tensor =>
      int64([...tokens.slice(from, to), ...tokens.slice(9 + from, 9 + to)], [2, to - from]);
    const logits = model.graph.outputs[0].name;
    let caches = empty(ours);
    for (const [from, to] of [
      [0, 6],
      [6, 7],
      [7, 8],
      [8, 9],
    ]) {
      const rows = Array.from({ length: to - from }, (_, at) => from + at);
      const whole: Record<string, PeerTensor> = { input_ids: handOver(part(0, to)), ...empty(theirs) };
      if (theirs.inputNames.includes("cache_position"))
        whole["cache_position"] = handOver(int64(Array.from({ length: to }, (_, at) => at)));
      const expected = takeBack((await theirs.run(whole))[logits])
        .toView()
        .slice(1, from, to);
      const results = await ours.run({
        input_ids: handOver(part(from, to)),
        position_ids: handOver(int64([...rows, ...rows], [2, to - from])),
        write_indices: handOver(int64([from, from])),
        nonpad_kv_seqlen: handOver(int64([to, to])),
        ...caches,
      });
      const actual = takeBack(results[logits]).toView();
      expect(compareViews(actual, expected, { tolerance: 2e-4 }), `tokens ${from} to ${to}`).toBe("");
      caches = Object.fromEntries(report.caches.map(({ input, output }) => [input, results[output]]));
    }
  });

  // Attention with sinks is insitu's own.
  const known = Object.entries(styles).filter(([, { attend }]) => attend !== "sinks");
  const masked = known.filter(
    ([, { mask, growth, tokens }]) =>
      ["window", "subtract", "alibi", "buckets"].includes(mask ?? "") && growth === undefined && tokens === undefined,
  );
  const kept = masked.map(([name, style]) => [`${name}, its mask kept`, style, true] as const);
  const all = known.map(([name, style]) => [name, style, false] as const);
  for (const [name, style, keepMask] of [...all, ...kept]) {
    test(`a decoder with ${name}`, async () => {
      // Sizes that differ from style to style.
      const { model, report } = rewrite(styledDecoder(style, name.length % 7), { capacity: 40, keepMask });
      expect(model.graph.inputs.some((input) => input.name === "attention_mask")).toBe(keepMask);
      const bytes = writeModel(model);
      const theirs = await openPeer(bytes);
      const ours = await InferenceSession.create(bytes, { backend: "reference", inPlace: "never" });
      const [batch, count] = [style.batch === 1 ? 1 : 2, style.tokens === 1 ? 1 : 5];
      let caches: Record<string, Tensor> = {};
      for (const { name: input, type, shape } of ours.inputMetadata) {
        const dims = shape.map((dim) => (typeof dim === "number" ? dim : batch));
        if (report.caches.some((cache) => cache.input === input))
          caches[input] = Tensor.fromView(View.allocate(type, dims));
      }
      let lengths = new Array<number>(batch).fill(0);
      for (const length of [count, 1, 1]) {
        const rows = lengths.flatMap((start) => Array.from({ length }, (_, at) => start + at));
        const tokens = rows.map((row) => (7 * row + 3) % 17);
        const ends = lengths.map((start) => start + length);
        const numbers: Record<string, readonly number[]> = {
          input_ids: tokens,
          position_ids: rows,
          write_indices: lengths,
          nonpad_kv_seqlen: ends,
        };
        const feeds: Record<string, Tensor> = { ...caches };
        for (const { name: input, type, shape } of ours.inputMetadata) {
          if (feeds[input] !== undefined) continue;
          const view = View.allocate(
            type,
            shape.map((dim, axis) =>
              typeof dim === "number" ? dim : axis === 0 ? batch : dim === "encoded" ? 3 : length,
            ),
          );
          const waves = Array.from({ length: view.size }, (_, at) => Math.sin(at));
          if (numbers[input] !== undefined) writeIntegers(view, numbers[input]);
          else if (input === "attention_mask")
            writeIntegers(
              view,
              ends.flatMap((end) => Array.from({ length: 40 }, (_, column) => (column < end ? 1 : 0))),
            );
          else writeNumbers(view, input === "mask" ? waves.map(() => (type === "bool" ? 1 : 0)) : waves);
          feeds[input] = Tensor.fromView(view);
        }
        const expected = await ours.run(feeds);
        const handed = Object.entries(feeds).map(([input, tensor]) => [input, handOver(tensor)] as const);
        const actual = await theirs.run(Object.fromEntries(handed));
        for (const output of ours.outputNames) {
          const [ownView, view] = [takeBack(actual[output]).toView(), expected[output].toView()];
          expect(compareViews(ownView, view, { tolerance: style.half === true ? 3e-2 : 1e-4 }), output).toBe("");
        }
        caches = Object.fromEntries(report.caches.map(({ input, output }) => [input, expected[output]]));
        lengths = lengths.map((start, sample) => start + (sample === 1 && length > 1 ? length - 2 : length));
      }
    });
  }
});
