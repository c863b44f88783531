// Contexts read by hand, through the engine: tokens in, the logits after the last one out.
import { Decoder } from "../../src/decoder/decoder.js";
import { Context } from "../../src/engine/context.js";
import { LinearLayout } from "../../src/engine/linear-layout.js";
import type { PromptReading } from "../../src/engine/prompt-parts.js";
import { readTokens } from "../../src/engine/pulled-text.js";
import { TokenEngine } from "../../src/engine/token-engine.js";

/** A context on linear caches of its own. */
export class ReadContext {
  readonly context: Context;
  readonly #engine: TokenEngine;

  constructor(decoder: Decoder, options: PromptReading & { readonly capacity: number; readonly sinks: number }) {
    const { capacity, sinks } = options;
    const shape = { capacity, sinks, overwrites: decoder.overwrites, isWhole: decoder.ragged };
    [this.context] = LinearLayout.open(decoder, shape);
    this.#engine = new TokenEngine(new LinearLayout(decoder, options, false));
  }

  /** Reads tokens; the logits after the last. */
  async extend(tokens: readonly number[]): Promise<Float32Array> {
    const [logits] = await readTokens(this.#engine, [{ context: this.context, tokens }], true, () => {});
    return logits!;
  }
}
