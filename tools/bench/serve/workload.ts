/** What clients ask a server that is measured: texts that begin alike, and conversations that do not. The same seed asks the same. */
import { seededRandom } from "./seeded-random.js";

/** One request. */
export interface Ask {
  readonly prompt: string;
  /** The same in the model's tokens, for servers that take them. */
  readonly tokens?: readonly number[];
  readonly maxTokens: number;
  /** What a balancer may tell it by. */
  readonly key?: string;
}

/** A kind of load. */
export interface Workload {
  readonly name: "shared-prefix" | "chat";
  readonly description: string;
  ask(number: number): Ask;
}

const vocabulary = (
  "once upon a time there was king who had three sons and the youngest went into wood to seek his fortune " +
  "old woman said my child take this bread water when wolf came house door golden bird tree sat sang night until " +
  "morning prince rode over hill through dark forest castle where sleeping girl lay under glass mountain fox"
).split(" ");

/** So many words, chosen by chance. */
export function words(count: number, random: () => number): string {
  return Array.from({ length: count }, () => vocabulary[Math.floor(random() * vocabulary.length)]).join(" ");
}

/** The loads; small ones show that it works and measure nothing. */
export function workloads(seed: number, small: boolean): readonly Workload[] {
  const prefix = words(small ? 40 : 220, seededRandom(seed));
  return [
    {
      name: "shared-prefix",
      description: "one long beginning for all, a few words of each, a short text",
      ask(number) {
        const random = seededRandom(seed + 1 + number);
        return { prompt: `${prefix} ${words(8, random)}`, maxTokens: small ? 4 : 32 };
      },
    },
    {
      name: "chat",
      description: "beginnings of 8 to 120 words, texts of 16 to 96 tokens",
      ask(number) {
        const random = seededRandom(seed + 100_003 + number);
        const prompt = words(8 + Math.floor(random() * (small ? 8 : 112)), random);
        return { prompt, maxTokens: small ? 4 : 16 + Math.floor(random() * 80) };
      },
    },
  ];
}
