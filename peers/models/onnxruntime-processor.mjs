// A published decoder on onnxruntime's processor: presents come to the host and are fed as the next step's pasts.

/** From so many tokens on a context is made of numbers instead of being read: its values do not change what a token costs. */
const tooLongToRead = 1024;

const dispose = (caches) => Object.values(caches).forEach((tensor) => tensor.dispose());

export class ProcessorDecoder {
  #ort;
  #session;
  #sizes;
  #names;
  #read = new Map();

  static async create(ort, sizes, model, threads) {
    const decoder = new ProcessorDecoder();
    decoder.#ort = ort;
    decoder.#sizes = sizes;
    decoder.#names = Array.from({ length: sizes.layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();
    decoder.#session = await ort.InferenceSession.create(model, {
      executionProviders: ["cpu"],
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      // Threads that spin would take a core from whoever has the next turn.
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    });
    return decoder;
  }

  /** Caches of so many rows: numbers that look random. */
  #madeCaches(rows) {
    const { keyValueHeads, headSize } = this.#sizes;
    let seed = 1;
    return Object.fromEntries(
      this.#names.map((name) => {
        const data = new Float32Array(keyValueHeads * rows * headSize);
        for (let at = 0; at < data.length; at++) {
          seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
          data[at] = seed / 2 ** 33;
        }
        return [name, new this.#ort.Tensor("float32", data, [1, keyValueHeads, rows, headSize])];
      }),
    );
  }

  /** Tokens behind `before` others: the likeliest next one, and the caches then. */
  async #step(tokens, before, caches) {
    const total = before + tokens.length;
    const results = await this.#session.run({
      input_ids: new this.#ort.Tensor("int64", BigInt64Array.from(tokens, BigInt), [1, tokens.length]),
      attention_mask: new this.#ort.Tensor("int64", new BigInt64Array(total).fill(1n), [1, total]),
      ...Object.fromEntries(Object.entries(caches).map(([name, tensor]) => [`past_key_values.${name}`, tensor])),
    });
    const { logits } = results;
    const vocabulary = logits.dims.at(-1);
    const last = logits.data.subarray(logits.data.length - vocabulary);
    let next = 0;
    for (let token = 1; token < vocabulary; token++) if (last[token] > last[next]) next = token;
    return { next, caches: Object.fromEntries(this.#names.map((name) => [name, results[`present.${name}`]])) };
  }

  async prefill(prompt) {
    const start = performance.now();
    const { caches } = await this.#step(prompt, 0, this.#madeCaches(0));
    const took = performance.now() - start;
    dispose(caches);
    return took;
  }

  async decode([prompt], steps) {
    const { length } = prompt;
    if (!this.#read.has(length)) {
      this.#read.clear();
      const isRead = length < tooLongToRead;
      this.#read.set(
        length,
        isRead ? await this.#step(prompt, 0, this.#madeCaches(0)) : { next: 1, caches: this.#madeCaches(length) },
      );
    }
    const from = this.#read.get(length);
    let { next, caches } = from;
    let start = 0;
    for (let at = 0; at <= steps; at++) {
      const after = await this.#step([next], length + at, caches);
      if (caches !== from.caches) dispose(caches);
      ({ next, caches } = after);
      if (at === 0) start = performance.now();
    }
    const took = performance.now() - start;
    dispose(caches);
    return took / steps;
  }

  async next(prompts) {
    const tokens = [];
    for (const prompt of prompts) {
      const { next, caches } = await this.#step(prompt, 0, this.#madeCaches(0));
      tokens.push(next);
      dispose(caches);
    }
    return tokens;
  }

  stop() {
    return this.#session.release();
  }
}
