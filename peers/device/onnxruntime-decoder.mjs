// A published decoder on onnxruntime's WebGPU provider, in Node and in a page alike: presents stay in GPU buffers and are the next step's pasts; the
// likeliest token is found by ArgMax in the graph, so that a token is all that comes to the host.

/** The caches that a model has, by name without `past_key_values.` and `present.`. */
const cacheNames = ({ layers }) =>
  Array.from({ length: layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();

export class OnnxruntimeDecoder {
  #ort;
  #session;
  #sizes;
  #type;
  #read = new Map();

  /** `open` makes a session from a session's options. */
  static async create(ort, sizes, type, open) {
    const session = await open({
      executionProviders: ["webgpu"],
      logSeverityLevel: 3,
      preferredOutputLocation: Object.fromEntries(cacheNames(sizes).map((name) => [`present.${name}`, "gpu-buffer"])),
    });
    const decoder = new OnnxruntimeDecoder();
    decoder.#ort = ort;
    decoder.#session = session;
    decoder.#sizes = sizes;
    decoder.#type = type;
    return decoder;
  }

  #integers(values, dims) {
    return new this.#ort.Tensor("int64", values, dims);
  }

  /** Caches of no rows. */
  #empty(texts) {
    const { keyValueHeads, headSize } = this.#sizes;
    const data = this.#type === "float32" ? new Float32Array(0) : new (globalThis.Float16Array ?? Uint16Array)(0);
    return Object.fromEntries(
      cacheNames(this.#sizes).map((name) => [
        name,
        new this.#ort.Tensor(this.#type, data, [texts, keyValueHeads, 0, headSize]),
      ]),
    );
  }

  /** The likeliest tokens behind `tokens`, which follow `before` others, and the caches then. */
  async #step(tokens, before, caches) {
    const [texts, count] = [tokens.length, tokens[0].length];
    const total = before + count;
    const results = await this.#session.run({
      input_ids: this.#integers(BigInt64Array.from(tokens.flat(), BigInt), [texts, count]),
      attention_mask: this.#integers(new BigInt64Array(texts * total).fill(1n), [texts, total]),
      ...Object.fromEntries(Object.entries(caches).map(([name, tensor]) => [`past_key_values.${name}`, tensor])),
    });
    const next = Array.from(await results.next.getData(), Number);
    return {
      next,
      caches: Object.fromEntries(Object.keys(caches).map((name) => [name, results[`present.${name}`]])),
    };
  }

  async decode(prompts, steps) {
    const length = prompts[0].length;
    const key = `${prompts.length} of ${length} from ${prompts[0][0]}`;
    if (!this.#read.has(key)) this.#read.set(key, await this.#step(prompts, 0, this.#empty(prompts.length)));
    const read = this.#read.get(key);
    let { next, caches } = read;
    const start = performance.now();
    for (let step = 0; step < steps; step++) {
      const after = await this.#step(
        next.map((token) => [token]),
        length + step,
        caches,
      );
      if (caches !== read.caches) dispose(caches);
      ({ next, caches } = after);
    }
    const took = performance.now() - start;
    if (caches !== read.caches) dispose(caches);
    return took / steps;
  }

  async prefill(prompt) {
    const start = performance.now();
    const { caches } = await this.#step([prompt], 0, this.#empty(1));
    const took = performance.now() - start;
    dispose(caches);
    return took;
  }

  async next(prompts) {
    const tokens = [];
    for (const prompt of prompts) {
      const { next, caches } = await this.#step([prompt], 0, this.#empty(1));
      tokens.push(...next);
      dispose(caches);
    }
    return tokens;
  }

  async stop() {
    for (const { caches } of this.#read.values()) dispose(caches);
    await this.#session.release();
  }
}

function dispose(caches) {
  for (const tensor of Object.values(caches)) tensor.dispose();
}
