// Rewritten decoders in onnxruntime-node, where the peers are installed: they load there and give the same logits, step by step.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../src/rewrite/rewrite.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";
import { bytesOf, int64, lastRows, models, packedSteps, toleranceOf } from "./exports.js";

const peers = fileURLToPath(new URL("../../peers/", import.meta.url));
const installed = existsSync(`${peers}node_modules/onnxruntime-node`);

interface PeerTensor {
  readonly type: string;
  readonly data: Tensor["data"];
  readonly dims: readonly number[];
}
interface PeerSession {
  readonly inputNames: readonly string[];
  readonly inputMetadata: readonly {
    readonly name: string;
    readonly type: string;
    readonly shape: readonly (number | string)[];
  }[];
  run(feeds: Record<string, PeerTensor>): Promise<Record<string, PeerTensor>>;
}
interface Peer {
  readonly Tensor: new (type: string, data: Tensor["data"], dims: readonly number[]) => PeerTensor;
  readonly InferenceSession: { create(bytes: Uint8Array, options: object): Promise<PeerSession> };
}

const capacity = 48;

describe.skipIf(!installed)("onnxruntime-node runs rewritten decoders", () => {
  const peer = installed ? (createRequire(peers)("onnxruntime-node") as Peer) : undefined;
  const handOver = ({ type, data, dims }: Tensor): PeerTensor => new peer!.Tensor(type, data, dims);
  const takeBack = ({ type, data, dims }: PeerTensor): Tensor =>
    new Tensor(type as "float32", data as Float32Array, dims);

  for (const model of models.filter((name) => !name.includes("static"))) {
    test(model, async () => {
      const { model: rewritten, report } = rewrite(readModel(bytesOf(model)));
      const session = await peer!.InferenceSession.create(writeModel(rewritten), {
        logSeverityLevel: 3,
        intraOpNumThreads: 1,
      });
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
});
