// Structured output that fails never: schemas of JSON Schema's own test suite, as zod writes them, and in the manner of public APIs, each drawn by the
// embedded model. What ends parses and is right by ajv; nothing ends before it is whole; what is refused is listed. The tests run a sample, always
// the same; INSITU_SOAK=1 runs all with 5 seeds. The suite's own examples of wrong values are held against every grammar.
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import type { HeldConstraint, JsonSchema } from "../../packages/choice/constraint.js";
import { loadModel } from "../serve/scripted-engine.js";
import { ofZod } from "./corpus.js";
import { publicApis } from "./public-apis.js";
import { soak } from "../support/soak.js";

interface Group {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly right: readonly unknown[];
  readonly wrong: readonly unknown[];
}
const suite = JSON.parse(readFileSync(new URL("./json-schema-test-suite/groups.json", import.meta.url), "utf8")) as {
  readonly groups: readonly Group[];
};

const schemas: readonly (readonly [name: string, schema: JsonSchema])[] = [
  ...suite.groups.map(({ name, schema }) => [name, schema] as const),
  ...ofZod.map((schema, at) => [`zod ${at}`, schema] as const),
  ...Object.entries(publicApis),
];

/** Tokens of a text at most: what has not ended by then is cut, and says so. */
const maxTokens = 160;

// A number divided by a decimal is rounded: ajv is told how far.
const ajv = new Ajv2020({
  strict: false,
  unicodeRegExp: true,
  logger: false,
  multipleOfPrecision: 9,
  validateSchema: false,
  ownProperties: true,
});
addFormats.default(ajv);
/** ajv's words for what older drafts and OpenAPI say. */
function inNewWords(schema: JsonSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_, value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const {
      items,
      additionalItems,
      exclusiveMinimum,
      minimum,
      $schema: _old,
      ...rest
    } = value as Record<string, unknown>;
    const bounds = exclusiveMinimum === true ? { exclusiveMinimum: minimum } : { exclusiveMinimum, minimum };
    const elements = Array.isArray(items) ? { prefixItems: items, items: additionalItems } : { items };
    return Object.fromEntries(
      Object.entries({ ...rest, ...bounds, ...elements }).filter(([, each]) => each !== undefined),
    );
  }) as JsonSchema;
}

let lm: CausalLM;
beforeAll(async () => {
  lm = await loadModel();
});
afterAll(() => lm?.release());

/** What keeps texts to a schema, or why it is refused. */
async function constrained(schema: JsonSchema): Promise<HeldConstraint | string> {
  try {
    return await lm.constrain({ kind: "schema", schema });
  } catch (error) {
    expect(error).toMatchObject({ code: "invalid-argument" });
    return (error as Error).message;
  }
}

test("no grammar takes what the suite calls wrong; what is refused says why", async () => {
  const refused: string[] = [];
  let [taken, looked] = [0, 0];
  for (const { name, schema, right, wrong } of suite.groups) {
    const held = await constrained(schema);
    if (typeof held === "string") {
      refused.push(`${name}: ${held}`);
      continue;
    }
    const told = (value: unknown): boolean => held.allows!(JSON.stringify(value));
    expect({ name, wrong: wrong.filter(told) }).toEqual({ name, wrong: [] });
    looked += wrong.length;
    taken += right.filter(told).length;
    held.release();
  }
  console.log(
    `${suite.groups.length - refused.length} of ${suite.groups.length} are enforced, ${looked} wrong values refused`,
  );
  if (soak) console.log(`refused:\n${refused.join("\n")}`);
  expect(refused.length).toBeLessThan(suite.groups.length / 4);
  expect(taken).toBeGreaterThan(looked / 2);
}, 120_000);

test("every text that ends parses and is right, and none ends before it is whole", async () => {
  const seeds = soak ? [1, 2, 3, 4, 5] : [1];
  const asked = schemas.filter((_, at) => soak || at % 20 === 0);
  const refused: string[] = [];
  let [ended, cut] = [0, 0];
  expect(Object.keys(publicApis)).toHaveLength(50);
  for (const [name, jsonSchema] of asked) {
    const held = await constrained(jsonSchema);
    if (typeof held === "string") {
      refused.push(`${name}: ${held}`);
      continue;
    }
    const validate = ajv.compile(inNewWords(jsonSchema));
    for (const seed of seeds) {
      const generation = lm.generate("The answer:", { jsonSchema, seed, maxTokens, temperature: 1 });
      const made = await generation.text();
      const { finishReason } = generation.summary;
      expect(["end", "length"]).toContain(finishReason);
      if (finishReason === "length") {
        cut++;
        continue;
      }
      ended++;
      const value: unknown = JSON.parse(made);
      expect({ name, made, right: validate(value), why: validate.errors }).toEqual({
        name,
        made,
        right: true,
        why: null,
      });
    }
    held.release();
  }
  const enforced = asked.length - refused.length;
  console.log(
    `${enforced} schemas × ${seeds.length} seeds: ${ended} texts ended and are right, ${cut} were cut; refused: ${refused.length}`,
  );
  if (soak) {
    console.log(refused.join("\n"));
    expect(enforced).toBeGreaterThanOrEqual(200);
  }
  expect(refused.filter((each) => Object.keys(publicApis).some((name) => each.startsWith(`${name}: `)))).toEqual([]);
  expect(ended).toBeGreaterThan((enforced * seeds.length) / 2);
}, 3_600_000);

test.skipIf(!soak)(
  "tokens by a schema take no more of the processor than others, in turns: a tenth at most",
  async () => {
    const person = object({
      name: { type: "string", maxLength: 40 },
      age: { type: "integer", minimum: 0, maximum: 150 },
      email: { type: "string", format: "email" },
    });
    const jsonSchema = { type: "array", items: person, minItems: 20, maxItems: 40 };
    /** Milliseconds of the processor for a token: other programs may have it in between. */
    const take = async (options: object): Promise<number> => {
      const before = process.cpuUsage();
      const generation = lm.generate("The people:", { maxTokens: 150, temperature: 1, ...options });
      await generation.text();
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000 / generation.summary.newTokens;
    };
    // What is made once for a schema, and the first runs, are not what is asked for.
    await take({ seed: 0, ignoreEnd: true });
    await take({ seed: 0, jsonSchema });
    const ratios: number[] = [];
    for (let seed = 1; seed <= 12; seed++) {
      const [free, held] = [await take({ seed, ignoreEnd: true }), await take({ seed, jsonSchema })];
      ratios.push(free / held);
    }
    const median = ratios.toSorted((a, b) => a - b)[ratios.length >> 1];
    console.log(`a token by a schema is made ${median.toFixed(2)} times as fast as another`);
    expect(median).toBeGreaterThan(0.9);
  },
  600_000,
);

const object = (properties: object): object => ({ type: "object", properties, required: Object.keys(properties) });
