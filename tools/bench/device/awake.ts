/** A GPU that rests lowers its clocks: what is timed on one runs behind work that has woken it up. */

/** Milliseconds without work after which a device is taken to have slowed down, and when it last had some. */
const rest = 100;
let lastWork = -Infinity;

/** Does work on a device that runs at its speed: where it has rested, the same work is done before, for as long as it takes to wake up. */
export async function awake<T>(work: () => Promise<T>, wakeMilliseconds: number): Promise<T> {
  const begin = performance.now();
  if (begin - lastWork > rest) while (performance.now() - begin < wakeMilliseconds) await work();
  const done = await work();
  lastWork = performance.now();
  return done;
}
