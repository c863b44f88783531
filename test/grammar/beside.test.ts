// "oneOf" beside other keywords, and lengths beside patterns: what is allowed of values that lie close to each other is what ajv says of them.
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { CausalLM } from "../../src/entry/node.js";
import { loadModel } from "../serve/scripted-engine.js";

const ajv = new Ajv2020({ strict: false, unicodeRegExp: true, logger: false });
addFormats.default(ajv);

let lm: CausalLM;
beforeAll(async () => {
  lm = await loadModel();
});
afterAll(() => lm?.release());

/** Of these values those that are allowed. */
async function allowed(schema: object, values: readonly unknown[]): Promise<readonly unknown[]> {
  const held = await lm.constrain({ kind: "schema", schema: { ...schema } });
  const found = values.filter((value) => held.allows!(JSON.stringify(value)));
  held.release();
  return found;
}

const properties = { a: { type: "integer" }, b: { type: "boolean" }, c: { type: "null" } };
const some = { a: 1, b: true, c: null };
/** Objects of some of three properties. */
const objects = Array.from({ length: 8 }, (_, bits) =>
  Object.fromEntries(Object.entries(some).filter((__, at) => ((bits >> at) & 1) === 1)),
);
const kinds = [{ k: "x", v: 1 }, { k: "x" }, { k: "x", v: "s" }, { k: "y", v: "s" }, { k: "y" }, { k: "y", v: 1 }];

describe("oneOf beside other keywords", () => {
  test.each([
    ["one property of two", { properties, oneOf: [{ required: ["a"] }, { required: ["b"] }] }, objects],
    ["one of three", { properties, oneOf: [{ required: ["a"] }, { required: ["b"] }, { required: ["c"] }] }, objects],
    ["two of them or another", { properties, oneOf: [{ required: ["a", "b"] }, { required: ["c"] }] }, objects],
    [
      "with anyOf",
      {
        properties,
        anyOf: [{ required: ["c"] }, { required: ["a"] }],
        oneOf: [{ required: ["a"] }, { required: ["b"] }],
      },
      objects,
    ],
    ["inside of allOf", { properties, allOf: [{ oneOf: [{ required: ["a"] }, { required: ["b"] }] }] }, objects],
    [
      "told apart by what is required outside",
      {
        properties: { k: { enum: ["x", "y"] }, v: {} },
        required: ["k"],
        oneOf: [
          { properties: { k: { const: "x" }, v: { type: "integer" } }, required: ["v"] },
          { properties: { k: { const: "y" }, v: { type: "string" } } },
        ],
      },
      kinds,
    ],
  ])("%s", async (_, given, values) => {
    const schema = { type: "object", ...given };
    const valid = values.filter((value) => ajv.validate(schema, value));
    expect(valid.length).toBeGreaterThan(0);
    expect(valid.length).toBeLessThan(values.length);
    expect(await allowed(schema, values)).toEqual(valid);
  });

  test("what may hold twice together with what stands beside it is refused", async () => {
    const oneOf = [{ properties: { a: { minimum: 1 } } }, { properties: { b: { const: true } } }];
    await expect(allowed({ type: "object", properties, oneOf }, objects)).rejects.toThrow(
      /"oneOf" with schemas that may both/,
    );
  });
});

test("an empty list of properties is one, where nothing is said of others", async () => {
  const values = [{}, { a: 1 }];
  expect(await allowed({ type: "object", properties: {} }, values)).toEqual([{}]);
  expect(await allowed({ allOf: [{ properties: {} }, { type: "object" }] }, values)).toEqual([{}]);
  for (const open of [
    {},
    { properties: {}, additionalProperties: true },
    { properties: {}, minProperties: 0, patternProperties: { a: {} } },
  ])
    expect(await allowed({ type: "object", ...open }, values)).toEqual(values);
});

describe("lengths beside patterns, and long ones", () => {
  const address = (length: number): string => `${"a".repeat(length - 6)}@b.com`;
  const path = (length: number): string => `https://a.b/${"é".repeat(length - 12)}`;
  test.each([
    ["an address", z.email().max(255), 255, address],
    ["a short one", z.email().max(20), 20, address],
    ["an address of some length", z.email().min(10).max(100), 100, address],
    [
      "a URL",
      z
        .string()
        .regex(/^https:\/\/\S+$/)
        .max(2048),
      2048,
      path,
    ],
    ["any text", z.string().max(100_000), 100_000, (length: number) => "😀".repeat(length)],
  ])("%s", async (_, type, most, make) => {
    const schema = z.toJSONSchema(type);
    const values = [make(most - 1), make(most), make(most + 1)];
    expect(await allowed(schema, values)).toEqual(values.slice(0, 2));
  });

  test("from the shortest on", async () => {
    const values = [address(9), address(10)];
    expect(await allowed(z.toJSONSchema(z.email().min(10).max(100)), values)).toEqual([address(10)]);
    await expect(allowed(z.toJSONSchema(z.email().max(4)), values)).rejects.toThrow("no value");
  });

  test("many elements", async () => {
    const list = (count: number): readonly number[] => Array.from({ length: count }, () => 1);
    const values = [list(2000), list(2001)];
    expect(await allowed({ type: "array", items: { const: 1 }, maxItems: 2000 }, values)).toEqual([list(2000)]);
  });
});
