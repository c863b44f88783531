// How often a text in the making is drawn: counted on a clock of the test's own, with frames of 16 ms.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { paced } from "../../site/src/state/pace.js";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  vi.stubGlobal("requestAnimationFrame", (draw: (now: number) => void) =>
    setTimeout(() => draw(performance.now()), 16 - (performance.now() % 16)),
  );
  vi.stubGlobal("cancelAnimationFrame", clearTimeout);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("what changes all the time is drawn at once, and then so often and no more", () => {
  const drawn: number[] = [];
  const pace = paced(100, () => drawn.push(performance.now()));
  for (let at = 0; at < 1000; at++) {
    pace.soon();
    vi.advanceTimersByTime(1);
  }
  expect(drawn[0]).toBeLessThan(20);
  const waits = drawn.slice(1).map((at, index) => at - drawn[index]);
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(84);
  expect(Math.max(...waits)).toBeLessThanOrEqual(116);
});

test("what changes seldom is drawn in the next frame, once for each change; what was stopped is not", () => {
  let count = 0;
  const pace = paced(33, () => count++);
  for (const expected of [1, 2, 3]) {
    vi.advanceTimersByTime(500);
    expect(count).toBe(expected - 1);
    pace.soon();
    pace.soon();
    vi.advanceTimersByTime(20);
    expect(count).toBe(expected);
  }
  pace.soon();
  pace.stop();
  vi.advanceTimersByTime(500);
  expect(count).toBe(3);
  // It can be asked again.
  pace.soon();
  vi.advanceTimersByTime(50);
  expect(count).toBe(4);
});
