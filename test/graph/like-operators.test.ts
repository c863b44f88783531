// What a rule told of a node is told of those that are alike: for every case of every operator, with contents that are known, left out or others, it is what the
// rule tells of each node alone; and a dimension that a rule makes up, alone or in a sum, is never another node's.
import { expect, test } from "vitest";
import { readAttributes } from "../../src/graph/attribute.js";
import { type Callable, inferOutputs, seededRandom } from "../../src/graph/call.js";
import { isFresh, symbol, symbolsOf } from "../../src/graph/dim.js";
import type { Fact } from "../../src/graph/fact.js";
import { LikeNodes } from "../../src/graph/like-nodes.js";
import { operators } from "../../src/ops/index.js";
import { readIntegers } from "../../src/tensor/access.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import type { View } from "../../src/tensor/view.js";
import { caseAttributes, type OpCase } from "../../tools/cases/shared/case.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../tools/cases/*.ts", { eager: true });
const random = seededRandom(Number(process.env["INSITU_SEED"] ?? 1));
const none = (): never => {
  throw new Error("cases have no subgraphs");
};

/** Nodes of their own for a case that are alike; undefined where its attributes are refused. */
function nodesOf(example: OpCase, count: number): readonly Callable[] | undefined {
  const op = operators.find(example.domain ?? "", example.op, example.opset)!;
  const label = `${example.op} "case"`;
  try {
    const attrs = readAttributes(op.attrs, caseAttributes(example.attrs), label);
    const wanted = example.outputs?.map((view) => view !== undefined) ?? [true];
    return Array.from({ length: count }, () => ({ op, label, opset: example.opset, attrs, wanted }));
  } catch {
    return undefined;
  }
}

/** What may be known of an operand: all, its integers, with other ones now and then, its type and shape, a shape of symbols, or no shape. */
function factOf(view: View, way: number): Fact {
  const { type, shape } = view;
  const { kind } = traitsOf(type);
  if (way === 0) return { type, shape, constant: view };
  if (way === 1 && kind === "integer" && shape.length < 2 && view.size < 9)
    try {
      const shift = Math.floor(random() * 2);
      return { type, shape, integers: readIntegers(view).map((value) => value + shift) };
    } catch {
      return { type, shape };
    }
  if (way === 3) return { type, shape: shape.map((size) => (random() < 0.5 ? size : symbol(`s${size}`))) };
  return { type, shape: way === 4 ? undefined : shape };
}

/** With made-up dimensions numbered in their order. */
function numbered(text: string): string {
  const made = new Map<string, string>();
  return text.replace(/\?~?\d+/g, (name) => {
    made.set(name, made.get(name) ?? `?${made.size}`);
    return made.get(name)!;
  });
}

const textOf = (facts: readonly Fact[]): string =>
  numbered(
    facts
      .map(({ type, shape, integers }) => `${type}[${shape?.join() ?? "none"}]{${integers?.join() ?? "none"}}`)
      .join(" "),
  );

/** What a rule tells, or refuses. */
function told(infer: () => readonly Fact[]): { readonly facts: readonly Fact[]; readonly text: string } {
  try {
    const facts = infer();
    return { facts, text: textOf(facts) };
  } catch (error) {
    return { facts: [], text: numbered((error as Error).message) };
  }
}

const madeUpIn = (facts: readonly Fact[]): string[] =>
  facts.flatMap(({ shape = [], integers = [] }) =>
    [...shape, ...integers].flatMap((dim) => [...symbolsOf(dim)].filter(isFresh)),
  );

test("all operators tell of like nodes what they tell of each alone, and share no dimension that they made up", () => {
  const like = new LikeNodes();
  let [nodesTold, shared] = [0, 0];
  const shares: string[] = [];
  for (const { cases } of Object.values(modules))
    for (const example of cases) {
      const nodes = nodesOf(example, 24);
      const owners = new Map<string, number>();
      for (const [at, node] of nodes?.entries() ?? []) {
        const inputs = example.inputs.map((view) => view && factOf(view, at < 2 ? 2 : Math.floor(random() * 5)));
        const given = inputs.map((fact) => fact && { ...fact });
        const alone = told(() => inferOutputs(node, inputs, none));
        let asked = 0;
        const { facts, text } = told(() =>
          like.outputsOf(node, given, (watched) => (asked++, inferOutputs(node, watched, none))),
        );
        expect(text, `${example.op}: ${example.shows}`).toBe(alone.text);
        for (const name of new Set(madeUpIn(facts))) {
          if ((owners.get(name) ?? at) !== at) shares.push(`${example.op}: ${text}`);
          owners.set(name, at);
        }
        nodesTold++;
        if (asked === 0) shared++;
      }
    }
  expect([...new Set(shares)]).toEqual([]);
  expect(nodesTold).toBeGreaterThan(5000);
  expect(shared).toBeGreaterThan(nodesTold / 4);
});
