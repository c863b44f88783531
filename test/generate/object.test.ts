// Objects by schemas of zod, valibot and arktype, and by JSON Schemas: typed, validated, told in parts; what was cut says so.
import { spawnSync } from "node:child_process";
import { toJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import * as z from "zod";
import { CausalLM } from "../../src/entry/node.js";
import { partialJson } from "../../packages/text/partial-json.js";

let lm: CausalLM;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { threads: 1 });
});
afterAll(() => lm?.release());

const ofZod = z.object({ name: z.string().max(12), age: z.int().min(0).max(99), kind: z.enum(["wolf", "fox"]) });
const ofValibot = v.object({
  name: v.pipe(v.string(), v.maxLength(12)),
  age: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(99)),
});
const ofArktype = type({ name: "string <= 12", age: "0 <= number.integer <= 99", kind: "'wolf' | 'fox'" });

describe("objects", () => {
  test("of zod, typed", async () => {
    const { object, text, summary } = await lm.generateObject(ofZod, "The animal:", { seed: 1 });
    expectTypeOf(object).toEqualTypeOf<{ name: string; age: number; kind: "wolf" | "fox" }>();
    expect(ofZod.parse(JSON.parse(text))).toEqual(object);
    expect(summary.finishReason).toBe("end");
  });

  test("of arktype, which tells its JSON Schema, and of valibot by a converter", async () => {
    const { object: one } = await lm.generateObject(ofArktype, "The animal:", { seed: 2 });
    expectTypeOf(one).toEqualTypeOf<{ name: string; age: number; kind: "wolf" | "fox" }>();
    expect(ofArktype.allows(one)).toBe(true);
    const { object: other } = await lm.generateObject(ofValibot, "The animal:", {
      seed: 3,
      toJsonSchema,
    });
    expectTypeOf(other).toEqualTypeOf<{ name: string; age: number }>();
    expect(v.is(ofValibot, other)).toBe(true);
    await expect(lm.generateObject(ofValibot, "x")).rejects.toThrow("@valibot/to-json-schema");
  });

  test("by a JSON Schema, and what a schema makes of what it reads", async () => {
    const { object } = await lm.generateObject({ type: "integer", minimum: 3, maximum: 5 }, "A number:", { seed: 1 });
    expect([3, 4, 5]).toContain(object);
    const doubled = z.object({
      n: z
        .int()
        .min(1)
        .max(4)
        .transform((n) => `${2 * n} wolves`),
    });
    const { object: made } = await lm.generateObject(doubled, "A number:", { seed: 1 });
    expect(made.n).toMatch(/^[2468] wolves$/);
  });

  test("cut ones say so, and a validator's own rules count; either is tried again where asked for", async () => {
    await expect(lm.generateObject(ofZod, "The animal:", { seed: 1, maxTokens: 5 })).rejects.toMatchObject({
      code: "unfinished",
      message: expect.stringContaining("after 5 tokens") as unknown,
    });
    const odd = z.object({
      n: z
        .int()
        .min(0)
        .max(9)
        .refine((n) => n % 2 === 1, "must be odd"),
    });
    const seed = (
      await Promise.all(
        [1, 2, 3, 4, 5, 6, 7, 8].map(async (each) =>
          lm.generateObject(odd, "A number:", { seed: each }).then(
            () => 0,
            () => each,
          ),
        ),
      )
    ).find((each) => each > 0)!;
    await expect(lm.generateObject(odd, "A number:", { seed })).rejects.toMatchObject({
      code: "invalid-value",
      message: expect.stringContaining("n: must be odd") as unknown,
    });
    const { object } = await lm.generateObject(odd, "A number:", { seed, retries: 20 });
    expect(object.n % 2).toBe(1);
  });

  test("wrong words are refused", async () => {
    await expect(async () => lm.generateObject(ofZod, "x", { jsonSchema: {} } as never)).rejects.toThrow("jsonSchema");
    await expect(async () => lm.generateObject(ofZod, "x", { max_tokens: 3 } as never)).rejects.toThrow(
      "did you mean maxTokens?",
    );
    await expect(async () => lm.generateObject(7 as never, "x")).rejects.toThrow("got 7");
    await expect(async () => lm.generateObject(z.date(), "x")).rejects.toThrow();
    expect(() => lm.streamObject(ofZod, "x", { retries: 1 })).toThrow("retries");
  });

  test("in parts, each of which the next goes on from", async () => {
    const schema = z.object({
      name: z.string().max(20),
      tags: z.array(z.string().max(6)).min(2).max(3),
      n: z.int().min(10).max(99),
    });
    const stream = lm.streamObject(schema, "The animal:", { seed: 4 });
    const parts: object[] = [];
    for await (const part of stream) {
      expectTypeOf(part.tags).toEqualTypeOf<readonly string[] | undefined>();
      parts.push(part);
    }
    expect(parts.length).toBeGreaterThan(3);
    expect(parts.at(-1)).toEqual(await stream.object());
    for (const [at, part] of parts.entries())
      if (at > 0) expect(Object.keys(part).length).toBeGreaterThanOrEqual(Object.keys(parts[at - 1]).length);
    const left = lm.streamObject(schema, "The animal:", { seed: 4 });
    for await (const _ of left) break;
    await expect(left.object()).rejects.toMatchObject({ code: "unfinished" });
  });
});

test("undo and rewindTo mean one thing each", () => {
  const chat = lm.chat([], { maxTokens: 1 });
  for (const word of ["one", "two", "three"]) chat.send(word);
  chat.undo();
  expect(chat.turns).toBe(2);
  chat.rewindTo(1);
  expect(chat.turns).toBe(1);
});

test("the old name of rewindTo warns once in a process", () => {
  const library = new URL("../../dist/lib/index.node.js", import.meta.url).href;
  const { stderr, stdout } = spawnSync(
    process.execPath,
    [
      "--input-type=module",
      "-e",
      `import { CausalLM } from ${JSON.stringify(library)};
       const lm = await CausalLM.load(undefined, { threads: 1 });
       const chat = lm.chat([], { maxTokens: 1 });
       for (const word of ["one", "two"]) await chat.send(word).text();
       chat.rewind(1);
       chat.rewind(0);
       console.log(chat.turns);
       chat.release();
       await lm.release();`,
    ],
    { encoding: "utf8" },
  );
  expect(stderr.trim()).toBe("insitu: chat.rewind is called chat.rewindTo; chat.undo takes back the last turns");
  expect(stdout.trim()).toBe("0");
});

test("what there is of JSON, at every place of it", () => {
  const value = { "a b": [1, -2.5e3, 'x"\\\né\ud83d\ude00', { c: null, d: [], e: {} }], f: true, g: "", "": [[false]] };
  for (const text of [JSON.stringify(value), JSON.stringify(value, null, 1), '"abc"', "[1, 2]", "true"])
    for (let end = 0; end <= text.length; end++) {
      const part = partialJson(text.slice(0, end));
      if (end === text.length) expect(part).toEqual(JSON.parse(text));
      // What is there is the beginning of the whole.
      expect(isBeginning(part, JSON.parse(text)), text.slice(0, end)).toBe(true);
    }
  expect(partialJson('{"a": "x')).toEqual({ a: "x" });
  expect(partialJson('{"a": "x\\')).toEqual({ a: "x" });
  expect(partialJson('{"a": 12')).toEqual({});
  expect(partialJson('{"a": 12,')).toEqual({ a: 12 });
  expect(partialJson('{"a": {"b')).toEqual({ a: {} });
  expect(partialJson("")).toBe(undefined);
});

/** True if a value may become another one by what follows. */
function isBeginning(part: unknown, whole: unknown): boolean {
  if (part === undefined) return true;
  if (typeof part === "string")
    return typeof whole === "string" && whole.startsWith(part.replace(/[\ud800-\udbff]$/, ""));
  if (typeof part !== "object" || part === null) return part === whole;
  return Object.entries(part).every(([name, each]) => isBeginning(each, (whole as Record<string, unknown>)[name]));
}
