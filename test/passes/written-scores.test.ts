// Scores taken apart: what stands around the product is told in its order, and chains of any length are walked no further than attention is long.
import { expect, test } from "vitest";
import { takeApart, type Terms } from "../../src/passes/written-scores.js";

interface Term {
  readonly name: string;
  readonly of: readonly Term[];
  readonly number?: number;
}

const call = (name: string, ...of: readonly Term[]): Term => ({ name, of });
const number = (given: number): Term => ({ name: "Constant", of: [], number: given });
const [product, mask] = [call("Product"), call("Mask")];

/** What is told of terms, and how often it was asked. */
function terms(): Terms<Term> & { asked: number } {
  return {
    asked: 0,
    callOf({ name, of }) {
      this.asked++;
      return of.length === 0 ? undefined : { name, label: name, of };
    },
    numberOf: (term) => term.number,
    isProduct: (term) => term === product,
    hides: (given) => given < -1e30,
  };
}

test("scale, softcap and masks in their order", () => {
  const capped = call("Mul", number(20), call("Tanh", call("Div", call("Mul", product, number(0.5)), number(10))));
  const chosen = call("Where", mask, number(-Infinity), call("Add", capped, mask));
  expect(takeApart(chosen, terms())).toMatchObject({
    product,
    scale: 1,
    softcap: 20,
    over: 10,
    masks: [
      { kind: "added", mask },
      { kind: "chosen", when: mask, keeps: false },
    ],
  });
  expect(takeApart(call("Mul", call("Add", product, mask), number(2)), terms())).toMatch(
    /are masked or capped already/,
  );
  expect(takeApart(call("Add", product, call("Mul", product, number(2))), terms())).toMatch(/several products/);
  expect(takeApart(call("Div", number(2), product), terms())).toMatch(/something that is not constant/);
});

test.each(["Add", "Mul"])("a chain of %s is walked no further than attention is long", (name) => {
  let chain = product;
  for (let at = 0; at < 50_000; at++) chain = call(name, chain, number(1));
  const told = terms();
  expect(takeApart(chain, told)).toMatch(/are made of 200 terms or more/);
  expect(told.asked).toBeLessThan(2_000);
});
