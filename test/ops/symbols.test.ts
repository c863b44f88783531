// Shape arithmetic over symbols: the chains that exporters write around Reshape, Expand, Slice and Range.
import { expect, test } from "vitest";
import { readAttributes } from "../../src/graph/attribute.js";
import { type CaseAttribute, caseAttributes, of } from "../../tools/cases/shared/case.js";
import { inferOutputs } from "../../src/graph/call.js";
import { addDims, type Dim, shapeText, symbol } from "../../src/graph/dim.js";
import { type Fact, factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import type { View } from "../../src/tensor/view.js";

const [batch, seq, past] = ["batch", "seq", "past"].map(symbol);
const fact = (shape: readonly Dim[] | undefined, type: ElementType = "float32"): Fact => ({ type, shape });
const ints = (...values: (number | bigint)[]): Fact => factOfView(of("int64", [values.length], values));
const int = (value: number): Fact => factOfView(of("int64", [], [value]));

function infer(
  name: string,
  inputs: readonly (Fact | undefined)[],
  attrs: Record<string, CaseAttribute> = {},
  outputs = 1,
): Fact[] {
  const op = operators.find("", name, 21)!;
  const node = {
    op,
    label: name,
    opset: 21,
    attrs: readAttributes(op.attrs, caseAttributes(attrs), name),
    wanted: new Array<boolean>(outputs).fill(true),
  };
  return inferOutputs(node, inputs, () => []);
}
const one = (...call: Parameters<typeof infer>): Fact => infer(...call)[0];
const shape = (...call: Parameters<typeof infer>): string => shapeText(one(...call).shape);
const contents = (found: Fact): string => shapeText(found.integers);

const hidden = fact([batch, seq, 64]);
const dims = one("Shape", [hidden]);

test("Shape, Gather, Unsqueeze and Concat hand dimensions to Reshape", () => {
  const first = one("Unsqueeze", [one("Gather", [dims, int(0)]), ints(0)]);
  const second = one("Gather", [dims, ints(-2)]);
  const asked = one("Concat", [first, second, ints(-1, 16)], { axis: 0 });
  expect(contents(asked)).toBe("[batch,seq,-1,16]");
  expect(shape("Reshape", [hidden, asked])).toBe("[batch,seq,4,16]");
});

test("Slice, Squeeze, Split and Identity of a shape keep its symbols", () => {
  expect(contents(one("Slice", [dims, ints(1), ints(9223372036854775807n)]))).toBe("[seq,64]");
  expect(contents(one("Slice", [dims, ints(-1), ints(-9223372036854775807n), ints(0), ints(-1)]))).toBe(
    "[64,seq,batch]",
  );
  expect(contents(one("Identity", [one("Squeeze", [one("Slice", [dims, ints(0), ints(1)])])]))).toBe("[batch]");
  expect(infer("Split", [dims], { num_outputs: 3 }, 3).map(contents)).toEqual(["[batch]", "[seq]", "[64]"]);
});

test("Shape takes a part, Size the product", () => {
  expect(contents(one("Shape", [hidden], { start: -2, end: -1 }))).toBe("[seq]");
  expect(contents(one("Size", [hidden]))).toBe("[64*batch*seq]");
});

test("an unknown part of a Concat leaves the others in their places", () => {
  const asked = one("Concat", [fact([1], "int64"), ints(8)], { axis: 0 });
  expect(shape("Reshape", [fact([symbol("n"), 8]), asked])).toMatch(/^\[\?\d+,8\]$/);
});

test("Expand, Tile and ConstantOfShape follow symbols", () => {
  const asked = one("Concat", [one("Slice", [dims, ints(0), ints(2)]), ints(64)], { axis: 0 });
  expect(shape("Expand", [fact([1, 1, 64]), asked])).toBe("[batch,seq,64]");
  expect(shape("ConstantOfShape", [asked])).toBe("[batch,seq,64]");
  expect(shape("Tile", [fact([2, seq]), one("Slice", [dims, ints(0), ints(2)])])).toBe("[2*batch,seq*seq]");
});

test("Range counts by symbols", () => {
  const scalar = (dim: Dim): Fact => ({ type: "int64", shape: [], integers: [dim] });
  expect(shape("Range", [int(0), scalar(seq), int(1)])).toBe("[seq]");
  expect(shape("Range", [scalar(past), scalar(addDims(past, seq)), int(1)])).toBe("[seq]");
  expect(contents(one("Range", [scalar(seq), scalar(addDims(seq, 3)), int(1)]))).toBe("[seq,seq + 1,seq + 2]");
});

test("Slice of data by symbols", () => {
  const total = addDims(past, seq);
  const bound = (dim: Dim): Fact => ({ type: "int64", shape: [1], integers: [dim] });
  expect(shape("Slice", [fact([total, 8]), bound(past), bound(total), ints(0)])).toBe("[seq,8]");
  expect(shape("Slice", [fact([total, 8]), ints(0), ints(9223372036854775807n), ints(0)])).toBe("[past + seq,8]");
  expect(shape("Slice", [fact([seq]), ints(-1), ints(9223372036854775807n)])).toBe("[min(1, seq)]");
  expect(shape("Slice", [fact([seq]), ints(0), ints(-1)])).toBe("[max(seq - 1, 0)]");
});

test("what is unknown stays unknown, with the rank that can be told", () => {
  const list = fact([2], "int64");
  expect(shape("Reshape", [hidden, list])).toMatch(/^\[\?\d+,\?\d+\]$/);
  expect(shape("Reshape", [fact(undefined), ints(2, 3)])).toBe("[2,3]");
  expect(shape("Squeeze", [hidden])).toBe("[?]");
  expect(shape("Squeeze", [hidden, list])).toMatch(/^\[\?\d+\]$/);
  expect(shape("Slice", [hidden, fact([1], "int64"), fact([1], "int64"), ints(1)])).toMatch(/^\[batch,\?\d+,64\]$/);
  expect(shape("NonZero", [hidden])).toMatch(/^\[3,\?\d+\]$/);
});

test("large contents are data, not shape", () => {
  const many = (count: number): View => of("int64", [count], new Array<number>(count).fill(1));
  expect(one("Identity", [factOfView(many(1024))]).integers).toHaveLength(1024);
  expect(one("Identity", [factOfView(many(1025))]).integers).toBeUndefined();
  expect(one("Gather", [ints(9007199254740993n), int(0)]).integers).toBeUndefined();
});
