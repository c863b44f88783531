// Waiting for a GPU in Node: empty turns of the event loop are few, and what is waited for comes as it is.
import { expect, test } from "vitest";
import { awaitCalmly } from "../../src/platform/calm-polling.js";

/** Turns of the event loop until a promise is settled, as Dawn takes them, and the milliseconds. */
async function turnsDuring(
  coming: Promise<unknown>,
): Promise<{ readonly turns: number; readonly milliseconds: number }> {
  const began = performance.now();
  let [turns, isOver] = [0, false];
  const look = (): void => {
    turns++;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await coming.catch(() => undefined);
  isOver = true;
  return { turns, milliseconds: performance.now() - began };
}

const later = <T>(milliseconds: number, settle: () => T): Promise<T> =>
  new Promise((resolve, reject) =>
    setTimeout(() => {
      try {
        resolve(settle());
      } catch (error) {
        reject(error as Error);
      }
    }, milliseconds),
  );

test("empty turns are drawn out while something is waited for", async () => {
  const calm = await turnsDuring(awaitCalmly(later(200, () => 7)));
  // Turns of a tenth of a millisecond at first, of half a one soon.
  expect(calm.turns / calm.milliseconds).toBeLessThan(6);
  expect(calm.turns).toBeGreaterThan(10);
});

test("what is waited for comes as it is, several at a time", async () => {
  const failure = new Error("no");
  const all = [
    awaitCalmly(later(5, () => 1)),
    awaitCalmly(
      later(9, () => {
        throw failure;
      }),
    ),
    awaitCalmly(Promise.resolve(3)),
  ];
  expect(await Promise.allSettled(all)).toEqual([
    { status: "fulfilled", value: 1 },
    { status: "rejected", reason: failure },
    { status: "fulfilled", value: 3 },
  ]);
  // And again, once nothing is waited for any more.
  await later(5, () => undefined);
  expect(await awaitCalmly(later(1, () => 4))).toBe(4);
});
