/** Draws what changes faster than anybody reads: in a frame, and at most so often. What is drawn in vain is taken from the model's speed. */

export interface Pace {
  /** Something changed: it is drawn in the next frame that is due. */
  soon(): void;
  /** What was to be drawn is not drawn any more. */
  stop(): void;
}

/** One frame, in milliseconds. */
const frame = 16;

/** Calls `draw` at most once in so many milliseconds. */
export function paced(leastMilliseconds: number, draw: () => void): Pace {
  let last = -Infinity;
  let [timer, asked]: [ReturnType<typeof setTimeout> | undefined, number | undefined] = [undefined, undefined];
  const drawNow = (now: number): void => {
    asked = undefined;
    last = now;
    draw();
  };
  const ask = (): void => {
    timer = undefined;
    asked = requestAnimationFrame(drawNow);
  };
  return {
    soon() {
      if (timer !== undefined || asked !== undefined) return;
      const wait = last + leastMilliseconds - frame - performance.now();
      if (wait > 0) timer = setTimeout(ask, wait);
      else ask();
    },
    stop() {
      clearTimeout(timer);
      if (asked !== undefined) cancelAnimationFrame(asked);
      [timer, asked] = [undefined, undefined];
    },
  };
}
