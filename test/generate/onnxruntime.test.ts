// The embedded model in onnxruntime: the same file gives the same logits. Skipped where the peers are not installed.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { distance } from "../support/compare.js";
import { embedded } from "./support.js";

const peers = fileURLToPath(new URL("../../peers/", import.meta.url));
const installed = existsSync(join(peers, "node_modules/onnxruntime-node"));

interface PeerTensor {
  readonly data: Float32Array;
}
interface Peer {
  readonly InferenceSession: {
    create(
      path: string,
      options: object,
    ): Promise<{
      readonly inputNames: readonly string[];
      run(feeds: Record<string, PeerTensor>): Promise<Record<string, PeerTensor>>;
      release(): Promise<void>;
    }>;
  };
  readonly Tensor: new (type: string, data: Float32Array | BigInt64Array, dims: readonly number[]) => PeerTensor;
}

/** Where the two differ by their rounding of activations: logits reach about 15. */
const tolerance = 5e-3;

test.skipIf(!installed)("the same file gives the same logits in onnxruntime", async () => {
  const ort = createRequire(join(peers, "package.json"))("onnxruntime-node") as Peer;
  const path = join(embedded, "onnx/model.onnx");
  const lm = await CausalLM.load(embedded);
  const tokens = lm.tokenizer.encode(
    "Once upon a time there was a king who had three beautiful daughters, and the youngest",
  );
  await lm.release();
  const mine = await InferenceSession.create(path, { inPlace: "require" });
  const peer = await ort.InferenceSession.create(path, { logSeverityLevel: 3, intraOpNumThreads: 1 });
  const capacity = 32;
  const state = mine.createState({ dims: { batch: 1, capacity } });
  const width = state.get(state.names[0]).dims[2];
  const empty = (): PeerTensor => new ort.Tensor("float32", new Float32Array(capacity * width), [1, capacity, width]);
  let past = Object.fromEntries(state.names.map((name) => [name, empty()]));
  const bigints = (values: readonly number[]): BigInt64Array => BigInt64Array.from(values, BigInt);
  let worst = 0;
  for (let at = 0; at < tokens.length;) {
    const part = tokens.slice(at, at === 0 ? 7 : at + 1);
    const rows: Record<string, readonly [readonly number[], readonly number[]]> = {
      input_ids: [part, [1, part.length]],
      position_ids: [part.map((_, index) => at + index), [1, part.length]],
      write_indices: [[at], [1]],
      nonpad_kv_seqlen: [[at + part.length], [1]],
    };
    const fed = <T>(make: (data: BigInt64Array, dims: readonly number[]) => T): Record<string, T> =>
      Object.fromEntries(Object.entries(rows).map(([name, [values, dims]]) => [name, make(bigints(values), dims)]));
    const theirs = await peer.run({ ...fed((data, dims) => new ort.Tensor("int64", data, dims)), ...past });
    const { logits } = await mine.run(
      fed((data, dims) => new Tensor("int64", data, dims)),
      { state },
    );
    past = Object.fromEntries(state.names.map((name) => [name, theirs[name.replace("past_key_values", "present")]]));
    const ours = logits.data as Float32Array;
    worst = Math.max(worst, distance(ours, theirs["logits"].data));
    at += part.length;
  }
  expect(worst).toBeGreaterThan(0);
  expect(worst).toBeLessThan(tolerance);
  await mine.release();
  await peer.release();
});
