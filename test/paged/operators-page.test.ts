// docs/paged-operators.md: its code runs and gives what it says, and its tables name what the operators declare.
import { readFileSync } from "node:fs";
import { compileFunction } from "node:vm";
import { expect, test } from "vitest";
import { ops } from "../../packages/functions/ops.js";
import { operators } from "../../src/ops/index.js";
import { Tensor } from "../../src/tensor/tensor.js";

const page = readFileSync(new URL("../../docs/paged-operators.md", import.meta.url), "utf8");

test("the code of the page runs", () => {
  const [, code] = /```ts\n([\s\S]*?)```/.exec(page)!;
  const body = `${code.replace(/^import .*\n/m, "")}\nreturn { y, attentionSums };`;
  const run = compileFunction(body, ["ops", "Tensor"]) as (
    functions: typeof ops,
    tensor: typeof Tensor,
  ) => { y: Tensor; attentionSums: Tensor };
  const { y, attentionSums } = run(ops, Tensor);
  Array.from(y.data as Float32Array).forEach((value, at) => expect(value).toBeCloseTo(4 + at, 5));
  expect(Array.from(attentionSums.data as Float32Array).map((value) => Math.round(value * 300))).toEqual([
    100, 100, 100, 0,
  ]);
});

test("every input, output and attribute of the operators is on the page", () => {
  for (const name of ["PagedAttention", "QuantizedScatterPaKvCache", "RepackCache"]) {
    const op = operators.find("insitu", name, 1)!;
    for (const word of [...Object.keys(op.inputs), ...Object.keys(op.outputs), ...Object.keys(op.attrs)])
      expect(page, `${name} ${word}`).toContain(`\`${word}\``);
  }
});
