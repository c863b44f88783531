/** What is asked of everyone who runs a model of real size, in a process of its own: insitu and peers answer alike. Nobody is named here. */
import { PeerProcess } from "../peer-process.js";

/** The files of a model, and how it is to be run. */
export interface OpenedModel {
  /** A folder in the hub's layout. */
  readonly folder: string;
  /** Its ONNX file. */
  readonly model: string;
  /** The same weights as llama.cpp reads them. */
  readonly gguf: string;
  readonly layers: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  /** Tokens that a text may have. */
  readonly context: number;
  readonly threads: number;
  /** True where it is to run on a GPU. */
  readonly gpu: boolean;
  /** insitu's backend, where one is named. */
  readonly backend?: string | undefined;
}

/** A process's memory so far, in bytes. */
interface MemoryBytes {
  readonly resident: number;
  readonly peak: number;
}

/** A process that has a model open. Times are milliseconds by its own clock. */
export class DecoderProcess {
  readonly #process: PeerProcess;

  private constructor(process: PeerProcess) {
    this.#process = process;
  }

  /** Starts a process and opens a model in it; what opening took: the runtime's own code, the weights, room for a text. */
  static async open(
    name: string,
    script: string,
    model: OpenedModel,
  ): Promise<{ readonly decoder: DecoderProcess; readonly milliseconds: number }> {
    const process = new PeerProcess(name, script);
    try {
      const milliseconds = (await process.ask("open", [model])) as number;
      return { decoder: new DecoderProcess(process), milliseconds };
    } catch (error) {
      process.end();
      throw error;
    }
  }

  /** Reads a prompt from its beginning and makes the token behind it. */
  async prefill(prompt: readonly number[]): Promise<number> {
    return (await this.#process.ask("prefill", [prompt])) as number;
  }

  /** Makes so many tokens behind a prompt, each a step: milliseconds a token. The first, which ends the reading, does not count. */
  async decode(prompt: readonly number[], steps: number): Promise<number> {
    return (await this.#process.ask("decode", [prompt, steps])) as number;
  }

  /** The likeliest token behind each of some prompts. */
  async next(prompts: readonly (readonly number[])[]): Promise<readonly number[]> {
    return (await this.#process.ask("next", [prompts])) as number[];
  }

  async memory(): Promise<MemoryBytes> {
    return (await this.#process.ask("memory", [])) as MemoryBytes;
  }

  async stop(): Promise<void> {
    await this.#process.ask("stop", []).catch(() => undefined);
    this.#process.end();
  }
}
