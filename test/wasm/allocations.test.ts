// A decode step allocates nothing that lasts: no tensor memory, no ArrayBuffer, and a JavaScript heap that stays flat. INSITU_SOAK runs
// the full count of steps.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { type DecoderForm, generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { soak } from "../support/soak.js";

const steps = soak ? 10_000 : 1000;
/** Steps until the engine has compiled what is hot: compiled code lies in the heap too. */
const warmUp = soak ? 10_000 : 500;
/** Bytes that a step may add to the heap: fewer than any object has, or what compiling may still take. */
const heapBytes = soak ? steps * 8 : steps * 512;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function heapUsed(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const integers = (dims: readonly number[]): Tensor => new Tensor("int64", new BigInt64Array(1), dims);

/** Decodes on a few states in turn; all tensors are made beforehand. */
class Decoding {
  readonly session: InferenceSession;
  readonly #options: readonly { state: ReturnType<InferenceSession["createState"]> }[];
  readonly #fetches = { logits: new Tensor("float32", new Float32Array(smallSizes.vocabulary), [1, 1, 128]) };
  readonly #fed: Readonly<Record<string, Tensor>>;
  #count = 0;

  constructor(session: InferenceSession, states: number, lengths: boolean) {
    this.session = session;
    this.#options = Array.from({ length: states }, () => ({
      state: session.createState({ dims: { batch: 1, capacity: warmUp + steps } }),
    }));
    this.#fed = {
      input_ids: integers([1, 1]),
      position_ids: integers([1, 1]),
      ...(lengths ? { write_indices: integers([1]), nonpad_kv_seqlen: integers([1]) } : {}),
    };
  }

  get movedBytes(): number {
    return this.#options.reduce((sum, { state }) => sum + state.statistics.movedBytes, 0);
  }

  async step(): Promise<void> {
    const position = Math.floor(this.#count / this.#options.length);
    const set = (name: string, value: number): void => {
      if (this.#fed[name] !== undefined) (this.#fed[name].data as BigInt64Array)[0] = BigInt(value);
    };
    set("input_ids", (this.#count * 31) % smallSizes.vocabulary);
    set("position_ids", position);
    set("write_indices", position);
    set("nonpad_kv_seqlen", position + 1);
    await this.session.run(this.#fed, this.#fetches, this.#options[this.#count++ % this.#options.length]);
  }
}

interface Variant {
  readonly name: string;
  readonly form: DecoderForm;
  readonly threads: number;
  readonly states: number;
  /** Lengths are fed; else the state fills them in. */
  readonly lengths: boolean;
}

const variants: readonly Variant[] = [
  { name: "one thread", form: {}, threads: 1, states: 1, lengths: true },
  { name: "two threads, lengths left out", form: {}, threads: 2, states: 1, lengths: false },
  {
    name: "8-bit weights, heads first, two states in turn",
    form: { weights: { bits: 8, blockSize: 32 }, caches: "heads" },
    threads: 2,
    states: 2,
    lengths: false,
  },
];

test.each(variants)("a decode step allocates nothing: $name", async ({ form, threads, states, lengths }) => {
  const model = generatedDecoder({ ...smallSizes, positions: warmUp + steps }, form);
  const session = await InferenceSession.create(writeModel(model), { backend: "wasm", inPlace: "require", threads });
  const decoding = new Decoding(session, states, lengths);
  for (let count = 0; count < warmUp; count++) await decoding.step();
  const heapBefore = heapUsed();
  const before = session.memory;
  const { arrayBuffers } = process.memoryUsage();
  let most = arrayBuffers;
  for (let count = 0; count < steps; count++) {
    await decoding.step();
    most = Math.max(most, process.memoryUsage().arrayBuffers);
  }
  expect(most, "bytes of ArrayBuffers").toBe(arrayBuffers);
  expect(session.memory, "tensor memory").toEqual(before);
  expect(decoding.movedBytes, "bytes of caches moved").toBe(0);
  expect(heapUsed() - heapBefore, "bytes added to the heap").toBeLessThan(heapBytes);
  await session.release();
});
