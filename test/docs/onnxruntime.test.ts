// The last section of docs/in-place.md: onnxruntime with one buffer bound twice changes results and says nothing; insitu does not.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { examples } from "./examples.js";

const bytes = writeModel(examples.find(({ name }) => name === "bound-twice")!.model);
const past = [1, 2, 3, 4, 5, 6, 7, 8];
const key = [100, 200];
const meant = { sum: [36], change: [0, 0, 97, 196, 0, 0, 0, 0], present: [1, 2, 100, 200, 5, 6, 7, 8] };

const peers = new URL("../../peers/package.json", import.meta.url);
const installed = existsSync(new URL("node_modules/onnxruntime-node/package.json", peers));

/** The little of onnxruntime-node that the test calls. */
interface Peer {
  readonly InferenceSession: {
    create(
      model: Uint8Array,
      options: object,
    ): Promise<{
      run(feeds: object, fetches?: object): Promise<Record<string, { readonly data: Iterable<number> }>>;
      release(): Promise<void>;
    }>;
  };
  readonly Tensor: new (type: string, data: Float32Array | BigInt64Array, dims: readonly number[]) => object;
}

const numbers = (results: Record<string, { readonly data: unknown }>): Record<string, number[]> =>
  Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, [...(data as Iterable<number>)]]));

test.skipIf(!installed)(
  `onnxruntime-node changes results when one buffer is bound twice${installed ? "" : " (skipped: npm --prefix peers ci installs onnxruntime-node)"}`,
  async () => {
    const peer = createRequire(peers)("onnxruntime-node") as Peer;
    const session = await peer.InferenceSession.create(bytes, {
      logSeverityLevel: 3,
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    });
    const feeds = (): { past: object; key: object; write_indices: object } => ({
      past: new peer.Tensor("float32", Float32Array.from(past), [1, 4, 2]),
      key: new peer.Tensor("float32", Float32Array.from(key), [1, 1, 2]),
      write_indices: new peer.Tensor("int64", BigInt64Array.of(1n), [1]),
    });
    expect(numbers(await session.run(feeds()))).toEqual(meant);
    const twice = feeds();
    const changed = numbers(await session.run(twice, { present: twice.past, sum: null, change: null }));
    expect(changed).toEqual({ ...meant, sum: [329], change: new Array(8).fill(0) });
    await session.release();
  },
);

test("insitu gives what the graph means, with a state that holds the cache", async () => {
  const session = await InferenceSession.create(bytes, { backend: "reference" });
  const state = session.createState();
  state.set("past", new Tensor("float32", Float32Array.from(past), [1, 4, 2]));
  const feeds = {
    key: new Tensor("float32", Float32Array.from(key), [1, 1, 2]),
    write_indices: new Tensor("int64", BigInt64Array.of(1n), [1]),
  };
  const results = await session.run(feeds, { state });
  expect({ ...numbers(results), present: [...(state.get("past").data as Float32Array)] }).toEqual(meant);
});

test('insitu refuses it under "require", and names the reader', async () => {
  await expect(InferenceSession.create(bytes, { backend: "reference", inPlace: "require" })).rejects.toMatchObject({
    code: "not-in-place",
    message:
      'TensorScatter "append": "past" cannot be updated in place: Sub "difference" reads the old value and needs this node\'s result, so it cannot come first; load with inPlace: "prefer" to copy it',
  });
});
