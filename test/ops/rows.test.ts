// What goes by the number of a row is declared: a window or a mask that nobody declares would be read wrongly once rows are taken out.
import { expect, test } from "vitest";
import type { AttributeValue } from "../../src/graph/attribute.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { operators } from "../../src/ops/index.js";

const widths = /^(left|local)_window_size$/;

test.each(operators.all.filter(({ attrs }) => Object.keys(attrs).some((name) => widths.test(name))))(
  "$domain $name-$since declares its window",
  ({ attrs, rows }) => {
    const needed = Object.keys(attrs).filter((name) => attrs[name].required);
    const read = (size: bigint): number | undefined => {
      const given = new Map<string, AttributeValue>(needed.map((name) => [name, { kind: "int", value: 1n }]));
      for (const name of Object.keys(attrs)) if (widths.test(name)) given.set(name, { kind: "int", value: size });
      return rows.window(readAttributes(attrs, given, "a call"));
    };
    expect(read(-1n)).toBeUndefined();
    // Microsoft's count the query's own row, ONNX's the rows behind it.
    expect(read(3n)).toBe("local_window_size" in attrs ? 3 : 4);
  },
);

test("every mask over the rows of a cache is declared", () => {
  for (const { name, since, inputs, rows } of operators.all) {
    const masks = Object.keys(inputs).filter((each) => ["attn_mask", "attention_bias", "mask_index"].includes(each));
    expect([name, since, rows.masks]).toEqual([name, since, masks]);
  }
});

test("lengths wrap in circular mode, and in no other", () => {
  const wrapping = operators.all.filter(({ lengths }) => lengths.wraps({ mode: "circular" }));
  expect(wrapping.map(({ name }) => name)).toEqual(["CachedAttention", "TensorScatter"]);
  expect(operators.all.some(({ lengths }) => lengths.wraps({ mode: "linear" }))).toBe(false);
});
