/** A text that is read for the mean of its last hidden state alone. */
import type { Context } from "./context.js";
import type { PartResult, StepPart, Want } from "./step.js";
import { EngineText, type TextOwner } from "./text.js";

/** Who hears of it. */
interface EmbeddingListener {
  /** It has its turn. */
  started?(): void;
  ended(mean: Float32Array): void;
  failed(error: Error): void;
}

/** A text to embed. */
export class EmbeddedText extends EngineText {
  readonly #listener: EmbeddingListener;
  #sums: Float64Array | undefined;

  constructor(tokens: readonly number[], owner: TextOwner, context: Context, listener: EmbeddingListener) {
    super(owner, context, tokens);
    this.#listener = listener;
  }

  /** Rows that others have read, or that it has read before, would be missing from the mean. */
  override get sharesRows(): boolean {
    return false;
  }

  get mostRows(): number {
    return this.tokens.length;
  }

  get isAsked(): boolean {
    return true;
  }

  protected get wants(): Want {
    return "hidden";
  }

  /** The sums over what was read so far. */
  get sums(): Float64Array | undefined {
    return this.#sums;
  }

  override start(): void {
    this.#listener.started?.();
  }

  override part(count: number): StepPart {
    return { ...super.part(count), wants: "hidden" };
  }

  override loseRows(): void {
    super.loseRows();
    this.#sums = undefined;
  }

  protected landed(result: PartResult): void {
    if (result.kind !== "hidden") return;
    this.#sums = result.sums;
    if (this.pending > 0) return;
    this.isOver = true;
    this.#listener.ended(Float32Array.from(result.sums, (sum) => sum / this.tokens.length));
  }

  fail(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#listener.failed(error);
  }
}
