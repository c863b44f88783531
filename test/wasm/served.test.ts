// Which declarations have fast paths on WASM: bound by declaration, so that a version without one is a decision and not an oversight.
import { expect, test } from "vitest";
import type { Op } from "../../src/graph/op.js";
import { operators } from "../../src/ops/index.js";
import { wasmKernels } from "../../src/ops/wasm.js";

/** Versions without a fast path of operators that have some in another version, and why. */
const without: Readonly<Record<string, string>> = {};

const operatorOf = ({ domain, name }: Op): string => (domain === "" ? name : `${domain}::${name}`);
const versionOf = (op: Op): string => `${operatorOf(op)}-${op.since}`;

test("every kernel serves a declaration, and each of them is an operator's", () => {
  const declared = new Set(operators.all);
  expect([...wasmKernels.keys()].filter((op) => !declared.has(op)).map(versionOf)).toEqual([]);
  for (const [op, kernels] of wasmKernels)
    for (const kernel of kernels) expect(kernel.ops, versionOf(op)).toContain(op);
});

test("a version without a kernel, of an operator that has some, is on the list", () => {
  const withKernels = new Set([...wasmKernels.keys()].map(operatorOf));
  const missing = operators.all.filter((op) => withKernels.has(operatorOf(op)) && !wasmKernels.has(op));
  expect(missing.map(versionOf).toSorted()).toEqual(Object.keys(without).toSorted());
});

test("as many declarations are served as are claimed", () => {
  expect(wasmKernels.size).toBeGreaterThanOrEqual(154);
  expect(new Set([...wasmKernels.keys()].map(operatorOf)).size).toBeGreaterThanOrEqual(116);
});
