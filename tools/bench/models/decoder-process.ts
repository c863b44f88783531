/** What is asked of everyone who runs a model of real size, in a process of its own: insitu and peers answer alike. Nobody is named here. */
import type { WeightType } from "../../demo/random-weights.js";
import { gpuLimitMs, PeerProcess } from "../peer-process.js";

/** The files of a model, and how it is to be run. */
export interface OpenedModel {
  /** A folder in the hub's layout. */
  readonly folder: string;
  /** Its ONNX file. */
  readonly model: string;
  /** The same with ArgMax behind the logits of the last token, where it runs on a GPU. */
  readonly next?: string | undefined;
  /** The same weights as llama.cpp reads them. */
  readonly gguf: string;
  readonly layers: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  /** The type of activations and caches. */
  readonly type: WeightType;
  /** Tokens that a text may have. */
  readonly context: number;
  readonly threads: number;
  /** True where it is to run on a GPU. */
  readonly gpu: boolean;
  /** True where a program plays the GPU. */
  readonly software: boolean;
  /** insitu's backend, where one is named. */
  readonly backend?: string | undefined;
  /** insitu's option of that name. */
  readonly activations?: "float" | undefined;
}

/** A process's memory so far, in bytes. */
interface MemoryBytes {
  readonly resident: number;
  readonly peak: number;
}

/** A process that has a model open. Times are milliseconds by its own clock. */
export class DecoderProcess {
  readonly #process: PeerProcess;
  readonly #limit: number | undefined;

  private constructor(process: PeerProcess, limit: number | undefined) {
    this.#process = process;
    this.#limit = limit;
  }

  /** Starts a process and opens a model in it; what opening took: the runtime's own code, the weights, room for a text. */
  static async open(
    name: string,
    script: string,
    model: OpenedModel,
  ): Promise<{ readonly decoder: DecoderProcess; readonly milliseconds: number }> {
    const process = new PeerProcess(name, script);
    try {
      const limit = model.gpu && !model.software ? gpuLimitMs : undefined;
      const milliseconds = (await process.ask("open", [model], limit)) as number;
      return { decoder: new DecoderProcess(process, limit), milliseconds };
    } catch (error) {
      await process.end();
      throw error;
    }
  }

  /** Reads a prompt from its beginning and makes the token behind it. */
  async prefill(prompt: readonly number[]): Promise<number> {
    return (await this.#process.ask("prefill", [prompt], this.#limit)) as number;
  }

  /** Makes so many tokens behind a prompt, each a step: milliseconds a token. The first, which ends the reading, does not count. */
  async decode(prompt: readonly number[], steps: number): Promise<number> {
    return (await this.#process.ask("decode", [prompt, steps], this.#limit)) as number;
  }

  /** The likeliest token behind each of some prompts. */
  async next(prompts: readonly (readonly number[])[]): Promise<readonly number[]> {
    return (await this.#process.ask("next", [prompts], this.#limit)) as number[];
  }

  async memory(): Promise<MemoryBytes> {
    return (await this.#process.ask("memory", [])) as MemoryBytes;
  }

  async stop(): Promise<void> {
    await this.#process.ask("stop", [], this.#limit).catch(() => undefined);
    await this.#process.end();
  }
}
