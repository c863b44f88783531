/** What clients of several workers ask: many short requests that begin alike in groups, and conversations whose turns repeat all that was said. */
import { type Answered, request } from "./client.js";
import type { Driven } from "./drive.js";
import type { Route } from "./routes.js";
import { seededRandom } from "./seeded-random.js";
import { words } from "./workload.js";

/** What one client says, turn by turn. A turn's prompt is all that was said before, answers included, and what the client adds. */
interface Session {
  /** What a balancer may tell it by: sessions that begin alike have the same. */
  readonly key: string;
  readonly adds: readonly string[];
  readonly maxTokens: number;
}

/** A kind of load. */
interface SessionLoad {
  readonly name: "shared-prefix" | "conversations";
  readonly description: string;
  session(number: number): Session;
}

/** A number below `count`, the n-th with the weight 1 / n. */
function zipf(count: number, random: () => number): number {
  const weights = Array.from({ length: count }, (_, at) => 1 / (at + 1));
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0);
  return Math.max(
    0,
    weights.findIndex((weight) => (rest -= weight) < 0),
  );
}

/**
 * The loads; small ones show that it works and measure nothing. The same seed asks the same, after a mark that every text begins with: what was
 * read with one is not found with another.
 */
export function sessionLoads(seed: number, mark: string, small: boolean): readonly SessionLoad[] {
  const beginningsOf = (from: number, count: number): string[] =>
    Array.from({ length: 8 }, (_, at) => `${mark} ${words(count, seededRandom(from + at))}`);
  const beginnings = beginningsOf(seed, small ? 30 : 150);
  const greetings = beginningsOf(seed + 100, small ? 12 : 60);
  const turns = small ? 2 : 4;
  return [
    {
      name: "shared-prefix",
      description: "eight long beginnings, the n-th as often as 1 in n, and a few words of each",
      session(number) {
        const random = seededRandom(seed + 1000 + number);
        const which = zipf(beginnings.length, random);
        return {
          key: `beginning ${mark} ${which}`,
          adds: [`${beginnings[which]} ${words(8, random)}`],
          maxTokens: small ? 4 : 16,
        };
      },
    },
    {
      name: "conversations",
      description: `${turns} turns, after one of eight beginnings; each turn repeats what was said before`,
      session(number) {
        const random = seededRandom(seed + 500_000 + number);
        const greeting = greetings[zipf(greetings.length, random)];
        const adds = Array.from({ length: turns }, (_, turn) =>
          turn === 0 ? `${greeting} ${words(20, random)}` : ` ${words(small ? 4 : 20, random)}`,
        );
        return { key: `conversation ${mark} ${number}`, adds, maxTokens: small ? 4 : 16 };
      },
    },
  ];
}

/** Has `count` sessions, so many at a time; `first` is the number of the first one. */
export async function driveSessions(
  route: Route,
  load: SessionLoad,
  concurrency: number,
  count: number,
  first: number,
): Promise<Driven> {
  const answers: Answered[] = [];
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < count) {
      const { key, adds, maxTokens } = load.session(first + next++);
      let prompt = "";
      for (const added of adds) {
        prompt += added;
        const target = route.take(key);
        const answer = await request(target, { prompt, maxTokens, key });
        route.done(target);
        answers.push(answer);
        prompt += answer.text;
      }
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, client));
  return { answers, seconds: (performance.now() - began) / 1000 };
}
