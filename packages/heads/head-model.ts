/**
 * A head that guesses for a decoder: it reads the decoder's hidden states, each with the token that was chosen by it, and predicts the token behind that
 * (multi-token prediction; EAGLE-3). What it makes of its guesses stands for the hidden states behind them. Chooses no token and knows no text.
 */
import { InsituError } from "#insitu/base/error.js";
import { Decoder } from "#insitu/decoder/decoder.js";
import type { Session } from "#insitu/session/session.js";
import type { State } from "#insitu/session/state.js";
import { readNumbers, writeNumbers } from "#insitu/tensor/access.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";

/** What exporters call the inputs and outputs of heads, where nothing names them. */
const usual = {
  hidden: ["hidden_states", "fused_hidden"],
  recycled: ["recycled_hidden"],
  feedback: ["hidden_states_out", "next_hidden", "mtp_hidden"],
};

/** What a folder says of its head. */
export interface HeadNames {
  /** The input that takes the model's hidden states, and the output that stands for those of a guess. */
  readonly hidden?: string | undefined;
  readonly feedback?: string | undefined;
}

/** What a head makes of one row and all before it. */
interface HeadResult {
  /** What may come behind the last token. */
  readonly logits: Float32Array;
  /** Read with the guess to go on; undefined where the head does not say. */
  readonly feedback: Float32Array | undefined;
}

/** A loaded head. */
export class HeadModel {
  readonly vocabulary: number;
  /** Numbers of one hidden state that it reads. */
  readonly size: number;
  readonly #session: Session;
  readonly #decoder: Decoder;
  readonly #hidden: string;
  /** Where its own states go, if not where the model's do. */
  readonly #recycled: string | undefined;
  readonly #types: ReadonlyMap<string, { readonly type: ElementType; readonly size: number }>;
  readonly #chains: boolean;

  /** Throws for a model that is no head. */
  constructor(session: Session, { hidden, feedback }: HeadNames = {}) {
    const { inputNames, outputNames, inputMetadata, outputMetadata } = session;
    const found = [hidden, ...usual.hidden].find((name) => name !== undefined && inputNames.includes(name));
    if (found === undefined)
      throw new InsituError(
        "invalid-model",
        `a head reads hidden states, ${usual.hidden.join(" or ")}; this one reads ${inputNames.join(", ")}`,
      );
    const measures = [feedback, ...usual.feedback].find((name) => name !== undefined && outputNames.includes(name));
    this.#session = session;
    this.#hidden = found;
    this.#recycled = usual.recycled.find((name) => inputNames.includes(name));
    const fed = [found, ...(this.#recycled === undefined ? [] : [this.#recycled])];
    this.#types = new Map(
      inputMetadata
        .filter(({ name }) => fed.includes(name))
        .map(({ name, type, shape }) => [name, { type, size: Number(shape.at(-1)) }]),
    );
    this.size = this.#types.get(found)!.size;
    if (!Number.isSafeInteger(this.size))
      throw new InsituError("invalid-model", `input "${found}" of the head has no size of its own`);
    this.#chains = measures !== undefined;
    this.#decoder = new Decoder(session, { fed, ...(measures === undefined ? {} : { measures }) });
    const logits = outputMetadata.find(({ name }) => name === this.#decoder.logitsName)!;
    this.vocabulary = Number(logits.shape.at(-1));
  }

  /** Caches for one text of at most `capacity` tokens. */
  open(capacity: number): State {
    return this.#decoder.createState(1, capacity);
  }

  /** Reads tokens with the hidden states that they were chosen by; `own`: the states are the head's. */
  async read(
    state: State,
    position: number,
    tokens: readonly number[],
    hidden: readonly Float32Array[],
    own: boolean,
  ): Promise<HeadResult> {
    const step = { tokens: [tokens], positions: [position], keep: 1, beside: this.#feeds(hidden, own) };
    if (!this.#chains) return { logits: (await this.#decoder.run(state, step)).at(0), feedback: undefined };
    const { logits, measured } = await this.#decoder.runMeasured(state, step);
    const rows = Float32Array.from(readNumbers(measured[0].toView()) as ArrayLike<number>);
    return { logits: logits.at(0), feedback: rows.subarray(rows.length - measured[0].dims.at(-1)!) };
  }

  #feeds(hidden: readonly Float32Array[], own: boolean): Readonly<Record<string, Tensor>> {
    const filled = own ? (this.#recycled ?? this.#hidden) : this.#hidden;
    const feeds: Record<string, Tensor> = {};
    for (const [name, { type, size }] of this.#types) {
      const view = View.allocate(type, [1, hidden.length, size]);
      if (name === filled) writeNumbers(view, Float32Array.from(hidden.flatMap((row) => [...row])));
      feeds[name] = Tensor.fromView(view);
    }
    return feeds;
  }

  release(): Promise<void> {
    return this.#session.release();
  }
}
