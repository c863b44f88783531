// Elements that are not on the host: views of them, what is told where they are looked at, and several joined, read in pieces of any size.
import { expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { joinByColumn, joinViews } from "../../src/passes/join-weights.js";
import { AbsentElements, absentView, DeferredElements, DeferredView, holding } from "../../src/tensor/deferred.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { bytesIn, View } from "../../src/tensor/view.js";

const seed = Number(process.env["INSITU_SEED"] ?? 1);

type Bytes = Exclude<ElementType, "string">;

/** The same elements on the host, and as a file would have them. */
function both(type: Bytes, shape: readonly number[], random: () => number): { held: View; absent: DeferredView } {
  const held = View.allocate(type, shape);
  const bytes = bytesIn(held);
  for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(random() * 256);
  const key = `${random()}`;
  const elements = new DeferredElements(type, held.size, key, async (start, target) => {
    if (start + target.length > bytes.length) throw new Error("past the end");
    target.set(bytes.subarray(start, start + target.length));
  });
  return { held, absent: new DeferredView(elements, shape) };
}

test("views are absent until they are held, and say so where they are looked into", async () => {
  const { held, absent } = both("float32", [4, 6], seededRandom(1));
  expect([absent.shape, absent.byteLength, absent.isWhole]).toEqual([[4, 6], 96, true]);
  const turned = absent.transpose([1, 0]).slice(0, 1, 3);
  expect(absentView(turned)).toBe(turned);
  expect(() => turned.data).toThrow(AbsentElements);
  expect(() => absent.reshape([24]).data).toThrow(/were looked at before they were read/);
  expect(absent.key).not.toBe((turned as DeferredView).key);
  expect((absent.reshape([2, 12]) as DeferredView).key).toBe(absent.key);
  let tries = 0;
  const seen = await holding(() => {
    tries++;
    return bytesIn(absent);
  });
  expect([...seen]).toEqual([...bytesIn(held)]);
  expect([tries, absentView(turned)]).toEqual([2, undefined]);
  const failure = new Error("of another kind");
  await expect(holding(() => Promise.reject(failure))).rejects.toBe(failure);
});

test("joined as what is on the host is, in pieces of any size", async () => {
  const random = seededRandom(seed);
  const upTo = (most: number): number => 1 + Math.floor(random() * most);
  let compared = 0;
  for (let round = 0; round < 300; round++) {
    const type = (["float32", "uint8", "float16", "int4"] as const)[upTo(4) - 1];
    const [rows, inner, count] = [upTo(9), 2 * upTo(5), upTo(3) + 1];
    const order = random() < 0.5 ? "after" : "inTurn";
    const width = upTo(40);
    const parts = Array.from({ length: count }, () => {
      const columns = order === "inTurn" ? width : upTo(40);
      return { columns, ...both(type, [rows, columns, inner], random) };
    });
    // Some may be on the host.
    const given = parts.map(({ held, absent }, at) => (at > 0 && random() < 0.3 ? held : absent));
    const expected = bytesIn(
      joinViews(
        parts.map(({ held }) => held),
        1,
        order,
      ),
    );
    const joined = joinViews(given, 1, order);
    const view = absentView(joined);
    if (view === undefined) throw new Error(`seed ${seed}, round ${round}: ${type} was joined on the host`);
    expect([joined.type, joined.byteLength, view.isWhole]).toEqual([type, expected.length, true]);
    const made = new Uint8Array(expected.length);
    for (let at = 0; at < made.length;) {
      const piece = made.subarray(at, at + upTo(200));
      await view.elements.read(at, piece);
      at += piece.length;
    }
    if (!made.every((byte, at) => byte === expected[at])) throw new Error(`seed ${seed}, round ${round}: other bytes`);
    compared++;
  }
  expect(compared).toBe(300);
});

test("what is held by column, and what cannot be cut at bytes", () => {
  const random = seededRandom(2);
  const parts = [both("uint8", [8, 3, 4], random), both("uint8", [8, 3, 4], random)];
  const joined = joinByColumn(
    parts.map(({ absent }) => absent),
    [8, 8],
    "inTurn",
  );
  expect([joined.shape, absentView(joined)]).toEqual([[16, 3, 4], joined]);
  // Runs of three elements of four bits end in the middle of a byte: those are joined on the host.
  const odd = [both("int4", [4, 3], random), both("int4", [4, 3], random)];
  expect(() =>
    joinViews(
      odd.map(({ absent }) => absent),
      1,
      "after",
    ),
  ).toThrow(AbsentElements);
});
