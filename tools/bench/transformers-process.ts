/**
 * A program that uses transformers.js, unchanged, in a process of its own: `generate` makes greedy text, each call going on from the caches that
 * the call before left. What computes beneath it is what transformers.js finds: onnxruntime-node, or a runtime that it is told of.
 */
import { pathToFileURL } from "node:url";
import { answerCalls, processorMsSince } from "./answer-calls.js";
import type { DecodedTokens } from "./client-contestant.js";

/** What a program is told when it is opened. */
export interface TransformersWork {
  /** The entry of transformers.js. */
  readonly entry: string;
  /** The entry of the runtime that stands where transformers.js looks first; left out, it takes the one that is installed beside it. */
  readonly standIn?: string | undefined;
  /** A folder that has the model's folder. */
  readonly folder: string;
  readonly model: string;
  readonly threads: number;
  /** Tokens of the prompt. */
  readonly context: number;
  /** Tokens that the model has positions for: before them, the prompt is read anew. */
  readonly most: number;
  readonly vocabulary: number;
}

interface ClientTensor {
  readonly dims: readonly number[];
  readonly data: BigInt64Array;
}

interface Generated {
  readonly sequences: ClientTensor;
  readonly past_key_values: { dispose?(): Promise<unknown> };
}

/** What the program uses of a model. */
interface Decoder {
  generate(options: Readonly<Record<string, unknown>>): Promise<Generated>;
  dispose(): Promise<unknown>;
}

/** What the program uses of transformers.js. */
interface Transformers {
  readonly env: { allowRemoteModels: boolean; localModelPath: string };
  readonly AutoModelForCausalLM: { from_pretrained(name: string, options: object): Promise<Decoder> };
  readonly BaseStreamer: new () => object;
  readonly Tensor: new (type: string, data: ArrayBufferView, dims: readonly number[]) => ClientTensor;
}

class Program {
  readonly #transformers: Transformers;
  readonly #decoder: Decoder;
  readonly #work: TransformersWork;
  #last: Generated | undefined;
  #begun = process.cpuUsage();

  constructor(transformers: Transformers, decoder: Decoder, work: TransformersWork) {
    this.#transformers = transformers;
    this.#decoder = decoder;
    this.#work = work;
  }

  static async open(work: TransformersWork): Promise<Program> {
    const { entry, standIn, folder, model, threads } = work;
    // transformers.js takes the runtime that stands here, and knows no devices then.
    if (standIn !== undefined)
      Object.assign(globalThis, { [Symbol.for("onnxruntime")]: await import(pathToFileURL(standIn).href) });
    const transformers = (await import(pathToFileURL(entry).href)) as Transformers;
    transformers.env.allowRemoteModels = false;
    transformers.env.localModelPath = folder;
    const decoder = await transformers.AutoModelForCausalLM.from_pretrained(model, {
      dtype: "fp32",
      device: standIn === undefined ? "cpu" : "auto",
      session_options: {
        intraOpNumThreads: threads,
        // Threads that spin would take a core from whoever has the next turn.
        extra: { session: { intra_op: { allow_spinning: "0" } } },
      },
    });
    return new Program(transformers, decoder, work);
  }

  #integers(values: BigInt64Array): ClientTensor {
    return new this.#transformers.Tensor("int64", values, [1, values.length]);
  }

  /** Goes on by so many tokens behind the text so far, or behind the prompt; when each of them came. */
  async #generate(count: number): Promise<readonly number[]> {
    const { context, vocabulary } = this.#work;
    const came: number[] = [];
    const streamer = Object.assign(new this.#transformers.BaseStreamer(), {
      put: () => {
        came.push(performance.now());
        // From the first new token on.
        if (came.length <= 2) this.#begun = process.cpuUsage();
      },
      end: () => {},
    });
    const last = this.#last;
    const text =
      last?.sequences.data ?? BigInt64Array.from({ length: context }, (_, at) => BigInt((at * 7919 + 11) % vocabulary));
    this.#last = await this.#decoder.generate({
      input_ids: this.#integers(text),
      attention_mask: this.#integers(new BigInt64Array(text.length).fill(1n)),
      ...(last === undefined ? {} : { past_key_values: last.past_key_values }),
      max_new_tokens: count,
      do_sample: false,
      return_dict_in_generate: true,
      streamer,
    });
    // The first call tells of what was there before.
    return came.slice(1);
  }

  /** The first tokens behind the prompt. */
  async begin(count: number): Promise<readonly number[]> {
    await this.#last?.past_key_values.dispose?.();
    this.#last = undefined;
    await this.#generate(count);
    return Array.from(this.#last!.sequences.data.subarray(this.#work.context), Number);
  }

  /** So many tokens, and one before them that does not count: it finds cold memory, and what `generate` does before its first. */
  async decode(count: number): Promise<DecodedTokens> {
    const rows = this.#last?.sequences.dims[1] ?? Infinity;
    if (rows + count >= this.#work.most) await this.begin(1);
    const came = await this.#generate(count + 1);
    const processorMs = processorMsSince(this.#begun);
    (globalThis as { gc?: () => void }).gc?.();
    return {
      times: came.slice(1).map((time, at) => time - came[at]),
      processorMs,
      residentBytes: process.memoryUsage().rss,
    };
  }

  async stop(): Promise<void> {
    await this.#decoder.dispose();
  }
}

/** Tokens that are compared. */
const compared = 32;

let program: Program | undefined;
answerCalls({
  open: async (work: TransformersWork) => {
    program = await Program.open(work);
  },
  result: () => program!.begin(compared),
  decode: (count: number) => program!.decode(count),
  stop: () => program!.stop(),
});
