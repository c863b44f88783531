/** Clients that ask a server: so many at a time, or one after another at a rate whatever the server does. */
import { type Answered, request, type Target } from "./client.js";
import { seededRandom } from "./seeded-random.js";
import type { Workload } from "./workload.js";

/** How many clients there are: a fixed number, each of which asks again when it has its answer, or arrivals a second. */
export type Pace = { readonly concurrency: number } | { readonly rate: number };

/** What was measured. */
export interface Driven {
  readonly answers: readonly Answered[];
  readonly seconds: number;
}

/** Asks `count` times. */
export async function drive(target: Target, workload: Workload, pace: Pace, count: number): Promise<Driven> {
  const began = performance.now();
  const answers =
    "rate" in pace
      ? await arrivals(target, workload, pace.rate, count)
      : await workers(target, workload, pace.concurrency, count);
  return { answers, seconds: (performance.now() - began) / 1000 };
}

async function workers(target: Target, workload: Workload, concurrency: number, count: number): Promise<Answered[]> {
  const answers: Answered[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) answers.push(await request(target, workload.ask(next++)));
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, work));
  return answers;
}

/** Arrivals by chance: times between them follow an exponential distribution. */
async function arrivals(target: Target, workload: Workload, rate: number, count: number): Promise<Answered[]> {
  const random = seededRandom(count);
  const began = performance.now();
  const under: Promise<Answered>[] = [];
  let due = 0;
  for (let number = 0; number < count; number++) {
    const wait = due - (performance.now() - began);
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    under.push(request(target, workload.ask(number)));
    due += (-Math.log(1 - random()) / rate) * 1000;
  }
  return Promise.all(under);
}
