// With INSITU_MEMORY_END set to a seed, every suite runs with buffers of the WASM backend at the ends of memories: arenas mostly, others
// now and then. See memory-end.ts.
import { afterAll } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { MemoryEnd } from "./memory-end.js";

const seed = process.env["INSITU_MEMORY_END"];

if (seed !== undefined) {
  const random = seededRandom(Number(seed));
  const end = new MemoryEnd(() => true);
  end.place(({ isArena }) => random() < (isArena ? 0.9 : 0.1));
  afterAll(() => {
    console.log(`${end.placed} of ${end.taken} buffers were at the end of a memory`);
    end.restore();
  });
}
