// What is kept to be used again, beside a list that says for each thing when it was last used.
import fc from "fast-check";
import { expect, test } from "vitest";
import { Recent } from "../../src/base/recent.js";

interface Kept {
  readonly name: number;
  used: number;
}

const name = fc.nat(7);
const moves = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("use" as const), name }),
    fc.record({ kind: fc.constant("add" as const), name }),
    fc.record({ kind: fc.constant("makeRoom" as const), name }),
    fc.record({ kind: fc.constant("drop" as const), name }),
  ),
  { maxLength: 40 },
);

test("the least recently used goes first, and whatever goes is handed back once", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), moves, (most, list) => {
      const recent = new Recent<Kept>(most);
      let model: Kept[] = [];
      const oldest = (): Kept | undefined =>
        model.length < most ? undefined : model.reduce((a, b) => (a.used <= b.used ? a : b));
      const without = (gone: Kept | undefined): void => {
        model = model.filter((each) => each !== gone);
      };
      list.forEach(({ kind, name: wanted }, time) => {
        switch (kind) {
          case "use": {
            const expected = model
              .filter((each) => each.name === wanted)
              .reduce<Kept | undefined>((a, b) => (a !== undefined && a.used > b.used ? a : b), undefined);
            expect(recent.use((each) => each.name === wanted)).toBe(expected);
            if (expected !== undefined) expected.used = time;
            break;
          }
          case "add": {
            const [gone, one] = [oldest(), { name: wanted, used: time }];
            expect(recent.add(one)).toBe(gone);
            without(gone);
            model.push(one);
            break;
          }
          case "makeRoom": {
            const gone = oldest();
            expect(recent.makeRoom()).toBe(gone);
            without(gone);
            break;
          }
          case "drop": {
            const gone = recent.drop((each) => each.name === wanted);
            expect(new Set(gone)).toEqual(new Set(model.filter((each) => each.name === wanted)));
            model = model.filter((each) => each.name !== wanted);
            break;
          }
          default:
            kind satisfies never;
        }
        expect([...recent]).toEqual(model.toSorted((a, b) => b.used - a.used));
        expect(recent.size).toBe(model.length);
      });
    }),
  );
});
