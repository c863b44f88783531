/** What is told of a load: bytes as they come, what is being done, and shaders that are compiled meanwhile. */

/**
 * What a load is busy with: "model" reads the graph, and weights in its file; "plan" makes it ready; "weights" brings what is still missing, on a GPU
 * while shaders are compiled; "ready" is the last call.
 */
export type LoadPhase = "model" | "plan" | "weights" | "ready";

/** How far a load is, beside its bytes. */
export interface LoadProgress {
  /** What the load is busy with. */
  readonly phase: LoadPhase;
  /** Pipelines that are compiled ahead on a GPU: those that are ready, of those asked for so far. Loading does not wait for them. */
  readonly pipelines: { readonly ready: number; readonly total: number };
}

type Listener = (loaded: number, total: number, progress: LoadProgress) => void;

/** Tells one listener. */
export class LoadTeller {
  readonly #listener: Listener | undefined;
  #bytes: readonly [loaded: number, total: number] = [0, 0];
  #phase: LoadPhase = "model";
  #pipelines: LoadProgress["pipelines"] = { ready: 0, total: 0 };

  constructor(listener: Listener | undefined) {
    this.#listener = listener;
  }

  readonly bytes = (...bytes: readonly [loaded: number, total: number]): void => {
    this.#bytes = bytes;
    this.#listener?.(...bytes, { phase: this.#phase, pipelines: this.#pipelines });
  };

  /** Nothing is told of a model without files. */
  enter(phase: LoadPhase): void {
    this.#phase = phase;
    if (this.#bytes[1] > 0) this.bytes(...this.#bytes);
  }

  /** What comes once the model is loaded is told nobody. */
  readonly pipelines = (ready: number, total: number): void => {
    this.#pipelines = { ready, total };
    if (this.#phase !== "ready") this.enter(this.#phase);
  };
}
