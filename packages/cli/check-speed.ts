/** How fast a model can be, by arithmetic: a token reads nearly all weights and the rows of its caches once, and memories have known speeds. */
import type { Plan } from "#insitu/plan/plan.js";
import type { View } from "#insitu/tensor/view.js";
import type { MemoryForecast } from "./inspect-memory.js";

/** A memory and what it gives at most, in bytes a second, as its makers state it. */
const memories: readonly (readonly [name: string, bytesPerSecond: number])[] = [
  ["laptop, DDR4-3200, two channels", 51.2e9],
  ["laptop, DDR5-5600, two channels", 89.6e9],
  ["Apple M4", 120e9],
  ["Apple M4 Max", 546e9],
  ["GeForce RTX 4090", 1008e9],
  ["H200", 4800e9],
];

/** The share of it that a token's reading is taken to reach. */
const share = 0.6;

/** What a token costs beside reading, in seconds: its steps are begun and waited for one after the other. */
const stepSeconds = 3e-4;

/** What speed to expect. */
export interface SpeedForecast {
  /** Bytes that one token reads, halfway through the context: weights, and rows of caches. */
  readonly bytesPerToken: number;
  /** The share of a memory's stated speed that is reckoned with. */
  readonly share: number;
  readonly expected: readonly {
    readonly memory: string;
    readonly bytesPerSecond: number;
    readonly tokensPerSecond: number;
  }[];
}

/** What to expect of a plan. */
export function speedForecast(plan: Plan, memory: MemoryForecast | undefined): SpeedForecast {
  const bytesPerToken = readWeights(plan) + (memory?.cacheBytes ?? 0) / 2;
  return {
    bytesPerToken,
    share,
    expected: memories.map(([name, bytesPerSecond]) => ({
      memory: name,
      bytesPerSecond,
      tokensPerSecond: Math.round(10 / (bytesPerToken / (share * bytesPerSecond) + stepSeconds)) / 10,
    })),
  };
}

/** Bytes of the weights that a token reads: of the tables that tokens are looked up in, next to nothing. */
function readWeights({ order }: Plan): number {
  const read = new Map<View["data"], number>();
  for (const { inputs } of order) {
    if (inputs.some((value) => value?.name === "input_ids")) continue;
    for (const { data, byteLength } of inputs.flatMap((value) => value?.initializer ?? []))
      read.set(data, Math.max(read.get(data) ?? 0, byteLength));
  }
  return [...read.values()].reduce((sum, bytes) => sum + bytes, 0);
}
