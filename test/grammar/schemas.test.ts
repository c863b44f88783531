// What a grammar lets through is what its schema allows: ajv, with the flag u and with formats, is the oracle. Texts are drawn from the masks, by
// chance and without a model, so that they go where no model would; and by the embedded model behind a server. The tests run a sample of the
// schemas, always the same, with fewer texts; INSITU_SOAK=1 runs all, 8 texts each. INSITU_SEED repeats a seed.
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import type { JsonSchema } from "../../packages/choice/constraint.js";
import { createServer } from "../../packages/serve/server.js";
import { loadModel } from "../serve/scripted-engine.js";
import { schemas } from "./corpus.js";
import { soak } from "../support/soak.js";

const firstSeed = Number(process.env["INSITU_SEED"] ?? 1);
const seeds = Array.from({ length: soak ? 8 : 3 }, (_, at) => firstSeed + at);
const sample = schemas.filter((_, at) => soak || at % 6 === 0);
/** Tokens of a text: what has not ended by then is cut, and says nothing. */
const mostTokens = 120;

const ajv = new Ajv2020({ strict: false, unicodeRegExp: true, logger: false });
addFormats.default(ajv);

let lm: CausalLM;
/** By token, whether it ends a string, an array or an object: most tokens do not. */
let closes: readonly boolean[];
beforeAll(async () => {
  lm = await loadModel();
  closes = Array.from({ length: lm.vocabulary }, (_, token) => /["}\]]/.test(lm.tokenizer.spellingOf(token) ?? ""));
});
afterAll(() => lm?.release());

/** A text that masks allow; undefined for one that did not end. */
async function drawn(schema: JsonSchema, random: () => number): Promise<string | undefined> {
  const held = await lm.constrain({ kind: "schema", schema });
  const ends = new Set(lm.defaults.endTokens);
  const mask = new Uint32Array(Math.ceil(lm.vocabulary / 32));
  const tokens: number[] = [];
  try {
    while (tokens.length < mostTokens) {
      held.fillMask(mask);
      const allowed: number[] = [];
      for (let token = 0; token < lm.vocabulary; token++)
        if (((mask[token >>> 5] >>> (token & 31)) & 1) === 1) allowed.push(token);
      // A text that is stuck would be an error where a model draws it.
      expect(allowed.length, `stuck after ${JSON.stringify(lm.tokenizer.decode(tokens))}`).toBeGreaterThan(0);
      const mayEnd = allowed.some((token) => ends.has(token));
      const rest = allowed.filter((token) => !ends.has(token));
      expect(held.mayEnd).toBe(mayEnd);
      if (mayEnd && (rest.length === 0 || random() < 0.3)) return lm.tokenizer.decode(tokens);
      const closing = rest.filter((token) => closes[token]);
      const from = closing.length > 0 && random() < 0.25 ? closing : rest;
      const token = from[Math.floor(random() * from.length)];
      expect(held.accept(token)).toBe(true);
      tokens.push(token);
    }
    return undefined;
  } finally {
    held.release();
  }
}

/** Why a text is none that its schema allows; undefined for one that is. */
function wrongWith(schema: JsonSchema, text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const validate = ajv.compile(schema);
    return validate(value) ? undefined : ajv.errorsText(validate.errors);
  } catch (error) {
    return String(error);
  }
}

test(`${sample.length} of ${schemas.length} schemas, ${seeds.length} texts each, from seed ${firstSeed} on: no text that ended is wrong`, async () => {
  expect(schemas.length).toBeGreaterThanOrEqual(300);
  let ended = 0;
  for (const schema of sample)
    for (const seed of seeds) {
      const text = await drawn(schema, seededRandom(seed));
      if (text === undefined) continue;
      ended++;
      expect({ seed, schema, text, wrong: wrongWith(schema, text) }).toEqual({ seed, schema, text });
    }
  console.log(`${ended} texts of ${sample.length} schemas ended`);
  expect(ended).toBeGreaterThan((sample.length * seeds.length) / 2);
}, 600_000);

test("and none that the model draws behind a server", async () => {
  const server = createServer(lm, { model: "embedded" });
  await server.ready;
  const asked = soak ? schemas : schemas.filter((_, at) => at % 24 === 0);
  let ended = 0;
  for (const schema of asked) {
    const response_format = { type: "json_schema", json_schema: { name: "x", schema } };
    const body = {
      prompt: "Once",
      max_tokens: 60,
      temperature: 1.5,
      seed: firstSeed,
      n: soak ? 8 : 2,
      response_format,
    };
    const request = new Request("http://localhost/v1/completions", { method: "POST", body: JSON.stringify(body) });
    const { choices } = (await (await server.fetch(request)).json()) as {
      readonly choices: readonly { readonly text: string; readonly finish_reason: string }[];
    };
    for (const { text } of choices.filter(({ finish_reason }) => finish_reason === "stop")) {
      ended++;
      expect({ schema, text, wrong: wrongWith(schema, text) }).toEqual({ schema, text });
    }
  }
  await server.close();
  console.log(`${ended} texts of ${asked.length} schemas ended`);
  expect(ended).toBeGreaterThan(asked.length / 2);
}, 3_600_000);
