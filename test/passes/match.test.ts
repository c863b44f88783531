// The pattern matcher: what fits, in which ways, and which nodes count as the pattern's own.
import { expect, test } from "vitest";
import type { Graph, Value } from "../../src/graph/graph.js";
import { node } from "../../src/onnx/build.js";
import { GraphIndex } from "../../src/passes/graph-index.js";
import {
  bound,
  either,
  hole,
  Match,
  op,
  optional,
  type Pattern,
  product,
  provided,
  scalar,
  shared,
  sum,
  unordered,
} from "../../src/passes/match.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { constant, modelOf } from "./support.js";

/** y = ((2·x)·w) + (b + x), with the difference w − b beside it. */
const { graph }: { graph: Graph } = preparedGraphOf(
  modelOf({
    inputs: { x: ["n"], w: ["n"], b: ["n"] },
    outputs: ["y", "d"],
    nodes: [
      node("Mul", ["two", "x"], ["double"]),
      node("Mul", ["double", "w"], ["scaled"]),
      node("Add", ["b", "x"], ["shifted"]),
      node("Add", ["scaled", "shifted"], ["y"]),
      node("Sub", ["w", "b"], ["d"]),
    ],
    constants: [constant("two", 2)],
  }),
  { level: "disabled" },
);
const index = new GraphIndex(graph);
const values = new Map<string, Value>();
for (const value of [...graph.inputs, ...graph.nodes.flatMap((made) => [...made.inputs, ...made.outputs])])
  if (value !== undefined) values.set(value.name, value);

const matches = (pattern: Pattern, name: string): Match[] => [...pattern(values.get(name)!, Match.at(index))];
const names = (match: Match, ...holes: readonly Pattern[]): string[] => holes.map((own) => match.value(own).name);

test("a hole takes any value, and the same one wherever it stands", () => {
  const [a, b] = [hole(), hole()];
  expect(names(matches(op("Sub", [a, b]), "d")[0], a, b)).toEqual(["w", "b"]);
  expect(matches(op("Sub", [a, a]), "d")).toEqual([]);
});

test("operators are known by name, domain and number of operands", () => {
  const any = hole();
  expect(matches(op("Add", [any, any]), "d")).toEqual([]);
  expect(matches(op("Sub", [any], {}), "d")).toEqual([]);
  expect(matches(op("Sub", [any], { more: true }), "d")).toHaveLength(1);
  expect(matches(op("Sub", [any, hole()], { domain: "com.microsoft" }), "d")).toEqual([]);
  expect(matches(op("Sub", [any, hole()], { where: () => false }), "d")).toEqual([]);
});

test("operands that may stand in either order are tried in both", () => {
  const [a, b] = [hole(), hole()];
  expect(matches(unordered("Add", a, b), "shifted").map((match) => names(match, a, b))).toEqual([
    ["b", "x"],
    ["x", "b"],
  ]);
  expect(matches(unordered("Add", scalar(1), b), "shifted")).toEqual([]);
});

test("products and sums fit in any order and grouping", () => {
  const [a, b] = [hole(), hole()];
  const factors = product(a, scalar(2), b);
  expect(matches(factors, "scaled").map((match) => names(match, a, b).sort())).toContainEqual(["w", "x"]);
  expect(matches(product(scalar(2), scalar(3), b), "scaled")).toEqual([]);
  // Four terms could only be three additions: there are two.
  expect(matches(sum(a, b, hole(), hole()), "y")).toEqual([]);
  expect(matches(sum(a, b, hole()), "y").length).toBeGreaterThan(0);
});

test("a scalar is near the number that is asked for, and can be read back", () => {
  const two = hole();
  expect(
    matches(
      product(
        scalar((number) => number > 1, two),
        hole(),
      ),
      "double",
    )[0].number(two),
  ).toBe(2);
  expect(matches(product(scalar(2.001), hole()), "double")).toEqual([]);
  expect(Match.at(index).number(two, 7)).toBe(7);
});

test("an optional operator may be there or not", () => {
  const x = hole();
  const maybe = optional("Mul", x);
  expect(matches(maybe, "double").map((match) => names(match, x)[0])).toEqual(["two", "double"]);
  expect(matches(either(op("Sub", [x, x]), x), "double")).toHaveLength(1);
});

test("the nodes that a pattern spells out are its own, but for shared ones; holes are its operands, but for named inner values", () => {
  const [a, b, c, inner] = [hole(), hole(), hole(), hole()];
  const scaled = product(bound(inner, op("Mul", [a, b])), c);
  const [plain] = matches(scaled, "scaled");
  expect(plain.nodes.map(({ op: { name } }) => name)).toEqual(["Mul", "Mul"]);
  expect(plain.node(inner).outputs[0]?.name).toBe("double");
  expect([...plain.operands()].map(({ name }) => name).sort()).toEqual(["two", "w", "x"]);
  const [other] = matches(product(shared(op("Mul", [a, b])), c), "scaled");
  expect(other.nodes).toHaveLength(1);
});

test("a condition sees the value and what was matched", () => {
  const a = hole();
  const when = (wanted: string): Pattern =>
    provided(op("Sub", [a, hole()]), (_, match) => match.value(a).name === wanted);
  expect(matches(when("w"), "d")).toHaveLength(1);
  expect(matches(when("b"), "d")).toEqual([]);
});

test("nodes are freed once nothing needs them, whatever is kept stays", () => {
  const root = index.producerOf(values.get("y")!)!;
  const freed = (kept: readonly string[]): string[] =>
    [...index.freedBy([root], new Set(kept.map((name) => values.get(name)!)))]
      .map((made) => made.outputs[0]!.name)
      .sort();
  expect(freed([])).toEqual(["double", "scaled", "shifted", "y"]);
  expect(freed(["scaled"])).toEqual(["shifted", "y"]);
});
