/** What Prometheus is told: the engine's figures as they are when asked, and what was measured of requests and texts. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { EngineFigures } from "./engine.js";
import type { TokenWatch } from "./text-group.js";
import type { Finish } from "./wire/text-event.js";

const firstTokenBuckets = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];
const tokenBuckets = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1];
const requestBuckets = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** A gauge of the engine: its names, what it says, and what it is read from. */
type Figure = readonly [name: string, help: string, read: (figures: EngineFigures) => number];

const usage = ({ blocks, blocksUsed }: EngineFigures): number => (blocks === 0 ? 0 : blocksUsed / blocks);

const breaker = { closed: 0, "half-open": 1, open: 2 } as const;

const gauges: readonly Figure[] = [
  ["insitu_texts_waiting", "Completions that wait in the queue.", (of) => of.waiting],
  ["insitu_texts_running", "Texts that are being made.", (of) => of.running],
  ["insitu_blocks", "Blocks of the pool.", (of) => of.blocks],
  ["insitu_blocks_used", "Blocks that hold tokens.", (of) => of.blocksUsed],
  ["insitu_block_tokens", "Tokens that a block holds.", (of) => of.blockSize],
  [
    "insitu_store_reading",
    "Whether the store is read: 0 yes, 1 on trial, 2 no.",
    (of) => breaker[of.store?.reading ?? "closed"],
  ],
  [
    "insitu_store_writing",
    "Whether the store is written: 0 yes, 1 on trial, 2 no.",
    (of) => breaker[of.store?.writing ?? "closed"],
  ],
  [
    "insitu_store_least_tokens",
    "The shortest prefix, in tokens, that is read from the store.",
    (of) => of.store?.leastTokens ?? 0,
  ],
];

const counters: readonly Figure[] = [
  ["insitu_prompt_tokens_total", "Prompt tokens of accepted requests.", (of) => of.promptTokens],
  ["insitu_reused_tokens_total", "Prompt tokens found in the prefix cache.", (of) => of.reusedTokens],
  ["insitu_new_tokens_total", "Tokens that were made.", (of) => of.madeTokens],
  ["insitu_preemptions_total", "Completions that were preempted.", (of) => of.preemptions],
  ["insitu_steps_total", "Runs of the model.", (of) => of.steps],
  [
    "insitu_guessed_tokens_total",
    "Guessed tokens that were checked, of finished completions.",
    (of) => of.guessedTokens ?? 0,
  ],
  ["insitu_right_guesses_total", "Guessed tokens that were right.", (of) => of.rightGuesses ?? 0],
  ["insitu_store_hits_total", "Blocks that were read from the store.", (of) => of.store?.hits ?? 0],
  ["insitu_store_misses_total", "Blocks that the store did not have.", (of) => of.store?.misses ?? 0],
  ["insitu_store_refused_total", "Values of the store that were damaged or foreign.", (of) => of.store?.refused ?? 0],
  ["insitu_store_errors_total", "Calls of the store that failed or took too long.", (of) => of.store?.errors ?? 0],
  ["insitu_store_saved_total", "Blocks that were written to the store.", (of) => of.store?.saved ?? 0],
  ["insitu_store_dropped_total", "Blocks that could not be written to the store.", (of) => of.store?.dropped ?? 0],
];

const vllmGauges: readonly Figure[] = [
  ["vllm:num_requests_waiting", "Number of requests waiting to be processed.", (of) => of.waiting],
  ["vllm:num_requests_running", "Number of requests in model execution batches.", (of) => of.running],
  ["vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage],
  ["vllm:gpu_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage (older name).", usage],
];

const vllmCounters: readonly Figure[] = [
  ["vllm:prompt_tokens_total", "Number of prefill tokens processed.", (of) => of.promptTokens],
  ["vllm:generation_tokens_total", "Number of generation tokens processed.", (of) => of.madeTokens],
  ["vllm:num_preemptions_total", "Cumulative number of preemptions.", (of) => of.preemptions],
  ["vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.", (of) => of.guessedTokens ?? 0],
  ["vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", (of) => of.rightGuesses ?? 0],
  ["vllm:prefix_cache_queries_total", "Prefix cache queries, in tokens.", (of) => of.promptTokens],
  ["vllm:prefix_cache_hits_total", "Prefix cache hits, in tokens.", (of) => of.reusedTokens],
  ["vllm:gpu_prefix_cache_queries_total", "Prefix cache queries, in tokens (older name).", (of) => of.promptTokens],
  ["vllm:gpu_prefix_cache_hits_total", "Prefix cache hits, in tokens (older name).", (of) => of.reusedTokens],
];

type Measure = (seconds: number, model: string) => void;
type TextCount = (finish: Finish, model: string) => void;

/** What engines are doing, by the names of their models. */
type FiguresByModel = () => readonly (readonly [model: string, figures: EngineFigures])[];
/** How a metric says which model it is of. */
type LabelsOf = (model: string) => Record<string, string>;

/** The measures of one server. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #figures: FiguresByModel;
  readonly #models: readonly string[];
  readonly #firstToken: readonly Measure[];
  readonly #token: readonly Measure[];
  readonly #whole: readonly Measure[];
  readonly #requests: Counter<"path" | "status">;
  readonly #texts: readonly TextCount[];
  readonly #losses: Counter<"why">;

  /** `models`: their names, where there are several: metrics say then which they are of, as vLLM's always do. */
  constructor(dialect: "insitu" | "vllm", model: string, figures: FiguresByModel, models: readonly string[] = []) {
    this.#figures = figures;
    this.#models = models.length === 0 ? [model] : models;
    const isVllm = dialect === "vllm";
    const own: LabelsOf = (name) => Object.fromEntries(models.length === 0 ? [] : [["model", name]]);
    const vllmLabels: LabelsOf = (name) => ({ model_name: name });
    for (const each of gauges) this.#gauge(each, own);
    for (const each of counters) this.#counter(each, own);
    if (isVllm) {
      for (const each of vllmGauges) this.#gauge(each, vllmLabels);
      for (const each of vllmCounters) this.#counter(each, vllmLabels);
      this.#cacheInfo();
    }
    const registers = [this.#registry];
    const histogram = (name: string, help: string, buckets: number[], labels: LabelsOf): Measure => {
      const made = new Histogram({ name, help, buckets, labelNames: Object.keys(labels("")), registers });
      return (seconds, of) => made.observe(labels(of), seconds);
    };
    const both = (name: string, vllm: readonly string[], help: string, buckets: number[]): Measure[] => [
      histogram(`insitu_${name}`, help, buckets, own),
      ...(isVllm ? vllm.map((other) => histogram(`vllm:${other}`, help, buckets, vllmLabels)) : []),
    ];
    this.#firstToken = both(
      "first_token_seconds",
      ["time_to_first_token_seconds"],
      "From the request to its first token.",
      firstTokenBuckets,
    );
    this.#token = both(
      "token_seconds",
      ["time_per_output_token_seconds", "inter_token_latency_seconds"],
      "From a token to the next.",
      tokenBuckets,
    );
    this.#whole = both(
      "text_seconds",
      ["e2e_request_latency_seconds"],
      "From the request to the completion's end.",
      requestBuckets,
    );
    this.#requests = new Counter({
      name: "insitu_requests_total",
      help: "Requests by path and status.",
      labelNames: ["path", "status"],
      registers,
    });
    this.#losses = new Counter({
      name: "insitu_lost_streams_total",
      help: "Streams whose reader left, or was too slow.",
      labelNames: ["why"],
      registers,
    });
    const texts = (name: string, labels: LabelsOf, reasonOf: (finish: Finish) => string): TextCount => {
      const labelNames = [...Object.keys(labels("")), "finished_reason"];
      const made = new Counter({ name, help: "Texts by how they ended.", labelNames, registers });
      return (finish, of) => made.inc({ ...labels(of), finished_reason: reasonOf(finish) });
    };
    // vLLM has no word for calls of tools.
    const vllmReason = (finish: Finish): string => (finish === "length" ? "length" : "stop");
    this.#texts = [
      texts("insitu_texts_total", own, (finish) => finish),
      ...(isVllm ? [texts("vllm:request_success_total", vllmLabels, vllmReason)] : []),
    ];
  }

  /** What Prometheus reads. */
  async response(): Promise<Response> {
    return new Response(await this.#registry.metrics(), { headers: { "content-type": this.#registry.contentType } });
  }

  /** A request is over. */
  request(path: string, status: number): void {
    this.#requests.inc({ path, status: String(status) });
  }

  /** A stream was lost. */
  lost(why: "gone" | "slow"): void {
    this.#losses.inc({ why });
  }

  /** Measures one text of a request that came at this moment, for a model. */
  watch(came: number, model: string): TokenWatch {
    let last = came;
    const observe = (measures: readonly Measure[], since: number): void => {
      last = performance.now();
      for (const measure of measures) measure((last - since) / 1000, model);
    };
    return {
      first: () => observe(this.#firstToken, came),
      next: () => observe(this.#token, last),
      ended: (finish) => {
        observe(this.#whole, came);
        for (const count of this.#texts) count(finish, model);
      },
    };
  }

  #gauge([name, help, read]: Figure, labels: LabelsOf): void {
    const [figures, models] = [this.#figures, this.#models];
    void new Gauge({
      name,
      help,
      labelNames: Object.keys(labels("")),
      registers: [this.#registry],
      collect() {
        const now = new Map(figures());
        for (const model of models) this.set(labels(model), now.has(model) ? read(now.get(model)!) : 0);
      },
    });
  }

  /** The engine counts by itself: what is new since it was asked last is added. */
  #counter([name, help, read]: Figure, labels: LabelsOf): void {
    const [figures, models] = [this.#figures, this.#models];
    const told = new Map<string, number>();
    void new Counter({
      name,
      help,
      labelNames: Object.keys(labels("")),
      registers: [this.#registry],
      collect() {
        const now = new Map(figures());
        for (const model of models) {
          const before = told.get(model) ?? 0;
          const count = now.has(model) ? read(now.get(model)!) : 0;
          // An engine in the place of one that is gone counts from 0.
          this.inc(labels(model), count >= before ? count - before : count);
          told.set(model, count);
        }
      },
    });
  }

  #cacheInfo(): void {
    const figures = this.#figures;
    void new Gauge({
      name: "vllm:cache_config_info",
      help: "Information of the cache configuration.",
      labelNames: ["block_size", "num_gpu_blocks"],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const [, now] of figures())
          this.set({ block_size: String(now.blockSize), num_gpu_blocks: String(now.blocks) }, 1);
      },
    });
  }
}
