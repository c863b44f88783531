// One source of chance: the same seed, the same choices.
import { seededRandom } from "../../src/graph/call.js";

export class Chance {
  readonly random: () => number;

  constructor(seed: number) {
    this.random = seededRandom(seed);
    for (let draws = 0; draws < 3; draws++) this.random(); // seeds in a row begin alike
  }

  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  of(probability: number): boolean {
    return this.random() < probability;
  }

  oneOf<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
}
