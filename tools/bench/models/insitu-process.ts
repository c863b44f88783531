/** insitu as one who runs a model of real size: `CausalLM.generate`, as users have it, in a process of its own. */
import { answerCalls } from "../answer-calls.js";
import { processMemory } from "./process-memory.js";
import type { OpenedModel } from "./decoder-process.js";
import type { BackendName } from "#insitu/entry/backends.js";
import type { CausalLM } from "#insitu/entry/node.js";

/** Greedy, and never ended by a token. */
const greedy = { temperature: 0, ignoreEnd: true } as const;

let lm: CausalLM | undefined;

/** The times at which tokens came, from when the text was asked for. */
async function arrivals(prompt: readonly number[], count: number): Promise<number[]> {
  const start = performance.now();
  const times: number[] = [];
  for await (const _ of lm!.generate(prompt, { ...greedy, maxTokens: count })) times.push(performance.now() - start);
  return times;
}

answerCalls({
  async open({ folder, threads, context, backend, activations }: OpenedModel): Promise<number> {
    const start = performance.now();
    const entry = await import("#insitu/entry/node.js");
    lm = await entry.CausalLM.load(folder, {
      threads,
      context,
      activations,
      ...(backend === undefined ? {} : { backend: backend as BackendName }),
    });
    return performance.now() - start;
  },
  prefill: async (prompt: readonly number[]) => (await arrivals(prompt, 1))[0],
  async decode(prompt: readonly number[], steps: number): Promise<number> {
    const times = await arrivals(prompt, steps + 1);
    return (times[steps] - times[0]) / steps;
  },
  async next(prompts: readonly (readonly number[])[]): Promise<number[]> {
    const tokens: number[] = [];
    for (const prompt of prompts)
      for await (const { token } of lm!.generate(prompt, { ...greedy, maxTokens: 1 })) tokens.push(token);
    return tokens;
  },
  memory: () => Promise.resolve(processMemory()),
  stop: async () => lm?.release(),
});
