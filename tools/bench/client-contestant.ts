/** A program of somebody else's as a contestant: a script in a process of its own that makes tokens when it is asked to. */
import type { Contestant, Running } from "./load.js";
import { median } from "./measure.js";
import { PeerProcess } from "./peer-process.js";

/** Milliseconds of each token, those of processor time for all of them, and the memory that the process has behind them. */
export interface DecodedTokens {
  readonly times: readonly number[];
  readonly processorMs: number;
  readonly residentBytes: number;
}

/** What a script is asked: `open` with its work, `decode` so many tokens, a `result` to compare, and to `stop`. */
interface ClientProgram {
  readonly name: string;
  readonly runtime: string;
  /** The file of the script. */
  readonly script: string;
  /** Flags of Node that it needs. */
  readonly flags?: readonly string[];
  /** Structured data. */
  readonly work: () => object;
  /** Tokens that one turn is made of. */
  readonly tokens: number;
}

/** The contestant; a run is a turn, its time the median of a token's. */
export const clientContestant = ({ name, runtime, script, flags, work, tokens }: ClientProgram): Contestant => ({
  name,
  runtime,
  async start(): Promise<Running> {
    const client = new PeerProcess(name, script, flags);
    try {
      await client.ask("open", [work()]);
    } catch (error) {
      await client.end();
      throw error;
    }
    let [made, first, last] = [0, 0, 0];
    const processor: number[] = [];
    return {
      async run() {
        const { times, processorMs, residentBytes } = (await client.ask("decode", [tokens])) as DecodedTokens;
        made += times.length + 1;
        processor.push(processorMs / times.length);
        if (first === 0) first = residentBytes;
        last = residentBytes;
        return median(times);
      },
      result: async () => Float32Array.from((await client.ask("result", [])) as number[]),
      figures: () => ({
        "processor ms a token": median(processor),
        tokens: made,
        "MiB more memory behind them": (last - first) / 2 ** 20,
      }),
      async stop() {
        await client.ask("stop", []).catch(() => undefined);
        await client.end();
      },
    };
  },
});
