/**
 * A program for onnxruntime, in a process of its own: each run's presents are the next one's pasts, the mask grows by ones. Which runtime it
 * has is told by a path; nothing here knows of states. Answers what is asked over the channel that the process was started with.
 */
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { answerCalls, processorMsSince } from "./answer-calls.js";
import type { DecodedTokens } from "./client-contestant.js";

interface ClientTensor {
  readonly data: ArrayLike<number>;
  readonly dims: readonly number[];
}

interface ClientSession {
  readonly inputMetadata: readonly { readonly name: string; readonly shape: readonly (number | string)[] }[];
  run(feeds: Readonly<Record<string, ClientTensor>>): Promise<Record<string, ClientTensor>>;
  release(): Promise<void>;
}

/** What programs use of onnxruntime's modules. */
interface ClientRuntime {
  readonly InferenceSession: { create(path: string, options: object): Promise<ClientSession> };
  readonly Tensor: new (type: string, data: ArrayBufferView, dims: readonly number[]) => ClientTensor;
}

/** What a client is told when it is opened. */
export interface ClientWork {
  /** The entry of the runtime's package. */
  readonly runtime: string;
  readonly model: string;
  readonly threads: number;
  /** Rows of the caches before the first token: numbers that look random, the same for everyone. */
  readonly context: number;
  /** Rows that the model has positions for: before them, it goes back to the context. */
  readonly most: number;
  readonly vocabulary: number;
}

class Client {
  readonly #ort: ClientRuntime;
  readonly #session: ClientSession;
  readonly #work: ClientWork;
  #pasts: Record<string, ClientTensor> = {};
  #rows = 0;

  constructor(ort: ClientRuntime, session: ClientSession, work: ClientWork) {
    this.#ort = ort;
    this.#session = session;
    this.#work = work;
    this.begin();
  }

  static async open(work: ClientWork): Promise<Client> {
    const { runtime, model, threads } = work;
    const ort = (
      runtime.endsWith(".js") ? await import(pathToFileURL(runtime).href) : createRequire(runtime)(runtime)
    ) as ClientRuntime;
    const session = await ort.InferenceSession.create(model, {
      executionProviders: ["cpu"],
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      // Threads that spin would take a core from whoever has the next turn.
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    });
    return new Client(ort, session, work);
  }

  /** Goes back to the context. */
  begin(): void {
    const { context } = this.#work;
    this.#rows = context;
    let seed = 1;
    const caches = this.#session.inputMetadata.filter(({ name }) => name.startsWith("past"));
    this.#pasts = Object.fromEntries(
      caches.map(({ name, shape }) => {
        const dims = shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? 1 : context));
        const size = dims.reduce((product, dim) => product * dim, 1);
        const data = new Float32Array(size);
        for (let at = 0; at < size; at++) {
          seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
          data[at] = seed / 2 ** 33;
        }
        return [name, new this.#ort.Tensor("float32", data, dims)];
      }),
    );
  }

  #integers(type: "int32" | "int64", values: readonly number[], dims: readonly number[]): ClientTensor {
    const data = type === "int64" ? BigInt64Array.from(values, BigInt) : Int32Array.from(values);
    return new this.#ort.Tensor(type, data, dims);
  }

  /** One token; its logits. */
  async step(): Promise<ArrayLike<number>> {
    const rows = this.#rows;
    const given: Record<string, () => ClientTensor> = {
      input_ids: () => this.#integers("int64", [(rows * 7919) % this.#work.vocabulary], [1, 1]),
      attention_mask: () => new this.#ort.Tensor("int64", new BigInt64Array(rows + 1).fill(1n), [1, rows + 1]),
      position_ids: () => this.#integers("int64", [rows], [1, 1]),
      seqlens_k: () => this.#integers("int32", [rows], [1]),
      total_sequence_length: () => this.#integers("int32", [rows + 1], []),
    };
    const feeds: Record<string, ClientTensor> = { ...this.#pasts };
    for (const { name } of this.#session.inputMetadata) if (name in given) feeds[name] = given[name]();
    const { logits, ...presents } = await this.#session.run(feeds);
    this.#pasts = Object.fromEntries(
      Object.entries(presents).map(([name, tensor]) => [pastOf(name, this.#pasts), tensor]),
    );
    this.#rows++;
    return logits.data;
  }

  /** So many tokens, and one before them that finds cold memory and sleeping threads and does not count. */
  async decode(count: number): Promise<DecodedTokens> {
    const times: number[] = [];
    let begun = process.cpuUsage();
    if (this.#rows + count >= this.#work.most) this.begin();
    for (let at = 0; at <= count; at++) {
      const start = performance.now();
      await this.step();
      if (at > 0) times.push(performance.now() - start);
      else begun = process.cpuUsage();
    }
    return { times, processorMs: processorMsSince(begun), residentBytes: process.memoryUsage().rss };
  }

  stop(): Promise<void> {
    return this.#session.release();
  }
}

/** `past_key_values.0.key` for `present.0.key`, or `past.0.key` where the model says so. */
const pastOf = (present: string, pasts: Readonly<Record<string, unknown>>): string => {
  const name = present.replace("present", "past_key_values");
  return name in pasts ? name : present.replace("present", "past");
};

let client: Client | undefined;
answerCalls({
  open: async (work: ClientWork) => {
    client = await Client.open(work);
  },
  result: async () => {
    client!.begin();
    return Array.from(await client!.step());
  },
  decode: (count: number) => client!.decode(count),
  stop: () => client!.stop(),
});
