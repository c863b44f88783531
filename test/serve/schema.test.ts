// Texts that obey a JSON Schema: what may be asked for is enforced to the letter, what may not be is refused by name.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { HeldConstraint, JsonSchema, TextRule } from "../../packages/choice/constraint.js";

let lm: CausalLM;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { threads: 1 });
});
afterAll(() => lm?.release());

const allows = (mask: Uint32Array, token: number): boolean => ((mask[token >>> 5] >>> (token & 31)) & 1) === 1;

/** True if a constraint lets a text through and lets it end there. Every token is looked up in the mask before it is taken. */
async function takes(rule: TextRule, text: string): Promise<boolean> {
  const held: HeldConstraint = await lm.constrain(rule);
  const mask = new Uint32Array(128);
  const may = (token: number): boolean => !held.fillMask(mask) || allows(mask, token);
  try {
    for (const token of lm.tokenizer.encode(text)) {
      const allowed = may(token);
      expect(held.accept(token)).toBe(allowed);
      if (!allowed) return false;
    }
    return may(lm.defaults.endTokens[0]);
  } finally {
    held.release();
  }
}

const schema = (of: JsonSchema): TextRule => ({ kind: "schema", schema: of });
const closed = (properties: object, required: readonly string[] = Object.keys(properties)): JsonSchema => ({
  type: "object",
  properties,
  required,
});

describe("what is enforced", () => {
  const cases: readonly (readonly [JsonSchema, readonly string[], readonly string[]])[] = [
    [true, ["1", '{"a":[]}', '"x"'], ["x", "{"]],
    [{ type: "integer", minimum: 3, maximum: 12 }, ["3", "12"], ["2", "13", "-4", "3.5"]],
    [{ type: "integer", exclusiveMinimum: -1 }, ["0", "77"], ["-1"]],
    [{ type: "string", minLength: 2, maxLength: 3 }, ['"ab"', '"é—x"'], ['"a"', '"abcd"', "ab"]],
    [{ type: "string", pattern: "^\\d{3}-[a-f]+$" }, ['"123-abc"'], ['"123-xyz"', '"12-abc"']],
    [{ type: "string", format: "date" }, ['"2024-02-29"'], ['"soon"']],
    [{ type: ["string", "null"] }, ["null", '"a"'], ["1"]],
    [{ enum: ["a", 1, null] }, ['"a"', "1", "null"], ['"b"', "2"]],
    [{ type: "string", enum: ["a", 1] }, ['"a"'], ["1"]],
    [{ const: { a: [1] } }, ['{"a":[1]}'], ["{}"]],
    [{ anyOf: [{ type: "string" }, { type: "integer" }] }, ["1", '"a"'], ["true"]],
    [{ oneOf: [{ type: "string" }, { type: "integer" }] }, ["1", '"a"'], ["true"]],
    [{ allOf: [{ type: "boolean" }] }, ["true"], ["1"]],
    [{ type: "array", items: { type: "integer" }, minItems: 1, maxItems: 2 }, ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]"]],
    [{ type: "array", prefixItems: [{ type: "string" }], items: false }, ['["a"]'], ["[1]", '["a", 1]']],
    [
      closed({ a: { type: "integer" }, b: { type: "string" } }, ["a"]),
      ['{"a": 1}', '{"a": 1, "b": "x"}'],
      ["{}", '{"b": "x"}'],
    ],
    // Others may be there by the schema; what obeys it may do without.
    [closed({ a: { type: "integer" } }), ['{"a": 1}'], ['{"a": 1, "c": 2}', '{"a": 1, "a": "x"}']],
    [
      { ...(closed({ a: { type: "integer" } }) as object), additionalProperties: { type: "string" } },
      ['{"a": 1}'],
      ['{"a": "x"}'],
    ],
    [{ type: "object", additionalProperties: { type: "integer" } }, ["{}", '{"x": 1}'], ['{"x": "y"}']],
    [{ $ref: "#/$defs/n", $defs: { n: { type: "integer" } } }, ["1"], ['"a"']],
    [{ $ref: "#/$defs/n", $defs: { n: { anyOf: [{ $ref: "#/$defs/n" }, { type: "null" }] } } }, ["null"], ['"a"']],
    [{ minimum: 1 }, ["1", "2.5"], ["0"]],
    [{ type: "integer", multipleOf: 5, minimum: -10, maximum: 20 }, ["-10", "0", "15"], ["-15", "3", "25", "5.0"]],
    [{ type: "number", multipleOf: 0.25, minimum: 0 }, ["0", "1.25", "7.5", "3"], ["0.1", "-1", "1.250"]],
    [
      {
        allOf: [
          { type: "integer", multipleOf: 2 },
          { multipleOf: 3, minimum: 5 },
        ],
      },
      ["6", "12"],
      ["4", "9", "0"],
    ],
    [
      { allOf: [closed({ a: { type: "null" } }), closed({ b: { type: "null" } })] },
      ['{"a": null, "b": null}'],
      ['{"a": null}'],
    ],
    [{ $ref: "#/$defs/n", maximum: 3, $defs: { n: { type: "integer" } } }, ["3", "-7"], ["4", '"a"']],
    [
      {
        type: "object",
        anyOf: [{ required: ["a"] }, { required: ["b"] }],
        properties: { a: { const: 1 }, b: { const: 2 } },
      },
      ['{"a": 1}', '{"b": 2}', '{"a": 1, "b": 2}'],
      ["{}"],
    ],
    [
      {
        type: "object",
        patternProperties: { "^n": { type: "integer" }, "^s": { type: "string" } },
        additionalProperties: false,
      },
      ["{}", '{"n": 1, "s": "x"}'],
      ['{"n": "x"}', '{"x": 1}'],
    ],
    [{ type: "object", required: ["z"] }, ['{"z": 1}'], ["{}"]],
    [
      closed({ a: { const: 1 }, b: { const: 2 }, c: { const: 3 } }, ["b"]),
      ['{"b": 2}', '{"a": 1, "b": 2, "c": 3}'],
      ['{"a": 1}'],
    ],
    [
      {
        ...(closed({ a: { const: 1 }, b: { const: 2 }, c: { const: 3 } }, ["b"]) as object),
        minProperties: 2,
        maxProperties: 2,
      },
      ['{"a": 1, "b": 2}', '{"b": 2, "c": 3}'],
      ['{"b": 2}', '{"a": 1, "c": 3}', '{"a": 1, "b": 2, "c": 3}'],
    ],
    [{ type: "array", items: { enum: ["a", "b"] }, uniqueItems: true }, ["[]", '["a", "b"]'], ['["a", "a"]']],
    [{ enum: ["a", "bb", 3], minLength: 2 }, ['"bb"', "3"], ['"a"']],
    [{ type: "string", nullable: true, "x-note": 1 }, ["null", '"a"'], ["1"]],
    [
      closed({ next: { anyOf: [{ $ref: "#" }, { type: "null" }] } }),
      ['{"next": null}', '{"next": {"next": null}}'],
      ['{"next": 1}'],
    ],
  ];
  test.each(cases)("%j", async (of, good, bad) => {
    for (const text of good) expect([text, await takes(schema(of), text)]).toEqual([text, true]);
    for (const text of bad) expect([text, await takes(schema(of), text)]).toEqual([text, false]);
  });

  test("objects whatever is in them, and calls", async () => {
    expect(await takes({ kind: "object" }, '{"a": [1, {}]}')).toBe(true);
    expect(await takes({ kind: "object" }, "[]")).toBe(false);
    expect(await takes({ kind: "object" }, '{ "a" : 1 }')).toBe(false);
    expect(await takes({ kind: "object" }, '{ "a": [ 1, 2 ] }')).toBe(true);
    for (const blanks of ["  ", "\n", "\t"])
      expect(await takes({ kind: "object" }, `{${blanks}"a": 1}`), JSON.stringify(blanks)).toBe(false);
    const rest = {
      choice: ["f", "g"].map((name) => ({
        sequence: [
          `\n{"name": "${name}", "arguments": `,
          { schema: closed({ x: { type: "integer" } }) },
          "}\n</tool_call>",
        ],
      })),
    };
    const call = (name: string, given: string): string =>
      `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;
    const each = { sequence: ["<tool_call>", rest] };
    const must = { kind: "structure", part: { repeat: each, between: "\n" } } as const;
    expect(await takes(must, call("f", '{"x": 1}'))).toBe(true);
    expect(await takes(must, `${call("f", '{"x": 1}')}\n${call("g", '{"x": 2}')}`)).toBe(true);
    for (const wrong of ["", "Well.", call("h", "{}"), call("f", '{"y": 1}')])
      expect(await takes(must, wrong)).toBe(false);
    const text = { repeat: { sequence: [{ until: "<tool_call>" }, rest] }, between: "", least: 0 } as const;
    const may = { kind: "structure", part: { sequence: [text, { without: "<tool_call>" }] } } as const;
    expect(await takes(may, "Well.")).toBe(true);
    expect(await takes(may, `Well.\n${call("f", '{"x": 1}')}`)).toBe(true);
    expect(await takes(may, `Well.\n${call("f", '{"x": "1"}')}`)).toBe(false);
    const other = { kind: "structure", part: { choice: [{ object: true }, { notBeginning: "{[" }] } } as const;
    for (const right of ['{"a": 1}', " so {it} is", ""]) expect(await takes(other, right)).toBe(true);
    for (const wrong of ["{so", " [1]"]) expect(await takes(other, wrong)).toBe(false);
  });

  test("tokens are taken back, and an end is known", async () => {
    const held = await lm.constrain(schema({ const: "ab" }));
    const mask = new Uint32Array(128);
    const tokens = lm.tokenizer.encode('"ab"');
    for (const token of tokens) held.accept(token);
    expect(held.terminated).toBe(true);
    held.rollback(tokens.length);
    expect([held.terminated, held.fillMask(mask), allows(mask, tokens[0])]).toEqual([false, true, true]);
    held.release();
    expect([held.fillMask(mask), held.accept(5), held.terminated]).toEqual([false, true, false]);
  });
});

describe("what is refused", () => {
  test.each([
    [false, "must be an object"],
    [{ type: "any" }, '"any"'],
    [{ type: "integer", multipleOf: 1234567 }, "multipleOf"],
    [{ type: "integer", multipleOf: 5, minimum: 1, maximum: 4 }, "no value"],
    [{ type: "array", uniqueItems: true }, "uniqueItems"],
    [{ type: "array", contains: { const: 1 } }, "contains"],
    [{ not: {} }, "not"],
    [{ type: "array", items: { type: "string" }, uniqueItems: true }, "uniqueItems"],
    [{ allOf: [{ type: "integer" }, { type: "string" }] }, "no value"],
    [{ oneOf: [{ type: "integer" }, { type: "number" }] }, "oneOf"],
    [{ properties: { a: false }, required: ["a"] }, '"a"'],
    [{ allOf: [{ patternProperties: { "^a": {} } }, { additionalProperties: false }] }, "patternProperties"],
    [{ anyOf: [{ type: "object" }], unevaluatedProperties: { type: "null" } }, "unevaluated"],
    [{ $ref: "https://example.com/schema" }, "reference"],
    [{ $ref: "#/$defs/none" }, "not there"],
    [{ $ref: "#" }, "itself"],
    [{ type: "object", required: ["z"], additionalProperties: false }, '"z"'],
    [{ type: "object", properties: { a: {} }, minProperties: 2 }, "minProperties"],
    [{ type: "string", format: "regex" }, '"regex"'],
    [{ type: "string", pattern: "(?=a)b" }, "no value"],
    [{ type: "string", pattern: "a(?<=b)" }, "looks behind"],
    [{ type: "string", pattern: "(a)\\1" }, "refers back"],
    [{ type: "string", pattern: "\\bword\\b" }, "word boundary"],
    [{ type: "string", pattern: "(^a|b)*" }, "repeats an anchor"],
    [{ type: "string", pattern: "[" }, "is none"],
    [{ type: "string", pattern: "^(a|b)*a(a|b){20}$" }, "500000 steps"],
    [{ type: "string", pattern: "^((a{100}){100}){100}$" }, "500000 steps"],
    [{ type: "string", pattern: "a|".repeat(600) }, "1024 characters"],
    [{ type: "string", pattern: "^a$", minLength: 3 }, "no value"],
    [{ type: "integer", minimum: 5, maximum: 3 }, "no value"],
    [{ type: "number", exclusiveMinimum: 1, maximum: 1 }, "no value"],
    [{ type: "array", minItems: 3, maxItems: 2 }, "minItems"],
    [{ type: "object", minProperties: 2 }, "alike"],
    [{ type: "object", properties: { x: { $ref: "#" } }, required: ["x"] }, "without end"],
    [
      { type: "object", properties: { ab: {} }, required: ["ab"], propertyNames: { pattern: "^a$", type: "string" } },
      '"ab"',
    ],
    [
      {
        type: "object",
        properties: Object.fromEntries(
          Array.from({ length: 490 }, (_, at) => [`p${at}`, { type: "integer", minimum: -8765432109876543 + at }]),
        ),
      },
      "500000 steps",
    ],
    [{ const: JSON.parse("[".repeat(5000) + "]".repeat(5000)) as unknown }, "nests more than 100"],
    [{ enum: Array.from({ length: 1001 }, (_, at) => at) }, "1000 values"],
    [{ type: "array", prefixItems: Array(600).fill({}) }, "500 parts"],
    [{ enum: [] }, "enum"],
    [
      Array(40)
        .fill(0)
        .reduce<object>((inner) => ({ type: "array", items: inner }), {}),
      "deep",
    ],
  ] as const)("$#: $1", async (of, why) => {
    await expect(lm.constrain(schema(of as JsonSchema))).rejects.toMatchObject({
      code: "invalid-argument",
      message: expect.stringContaining(why) as unknown,
    });
  });

  test("and what comes after it is enforced all the same", async () => {
    expect(await takes(schema({ type: "boolean" }), "true")).toBe(true);
    expect(await takes(schema({ type: "boolean" }), "1")).toBe(false);
  });
});

test("generate keeps to a schema, greedy, sampled and with log-probabilities; a bias moves it", async () => {
  const Animal = closed({ kind: { enum: ["wolf", "fox"] }, age: { type: "integer", minimum: 1, maximum: 9 } });
  for (const options of [
    { temperature: 0 },
    { seed: 3, repetitionPenalty: 1.2 },
    { seed: 4, logprobs: 2, speculate: true },
  ]) {
    const made = lm.generate("The animal:", { ...options, jsonSchema: Animal });
    const { kind, age } = JSON.parse(await made.text()) as { kind: string; age: number };
    expect([made.summary.finishReason, ["wolf", "fox"].includes(kind), age >= 1 && age <= 9]).toEqual([
      "end",
      true,
      true,
    ]);
  }
  for (const digit of ["3", "7"]) {
    const logitBias = new Map([[lm.tokenizer.encode(digit)[0], 50]]);
    const jsonSchema = { type: "integer", minimum: 1, maximum: 9 };
    expect(await lm.generate("The animal:", { temperature: 0, jsonSchema, logitBias }).text()).toBe(digit);
  }
  expect(() => lm.generate("x", { jsonSchema: true, ignoreEnd: true })).toThrow("ignoreEnd");
  expect(() => lm.generate("x", { jsonSchema: "no" as never })).toThrow("jsonSchema");
  expect(() => lm.generate("x", { logitBias: { 3: 1 } as never })).toThrow("logitBias");
  const texts = await lm.samples("The animal:", 2, { jsonSchema: Animal, seed: 1 });
  for (const each of texts) expect(JSON.parse(await each.text())).toHaveProperty("age");
});
