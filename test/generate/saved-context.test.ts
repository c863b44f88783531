// Saved contexts, damaged: what is taken over is what the bytes say, or an error says what is wrong and the model has what it had.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { CausalLM } from "../../src/entry/node.js";
import type { LoadLanguageModelOptions } from "../../src/generate/causal-lm.js";
import { seededRandom } from "../../src/graph/call.js";
import { noWebgpu } from "../support/backends.js";
import { builtEntry } from "../support/built.js";
import { hubFolder, tokensOf } from "./support.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 5);
const folders = { op24: hubFolder("llama_op24"), windowed: hubFolder("mistral_op24") };
afterAll(() => {
  for (const folder of Object.values(folders)) folder.remove();
});

const forms: [string, keyof typeof folders, LoadLanguageModelOptions][] = [
  ["linear caches", "op24", { inPlace: "require" }],
  ["growing caches", "op24", { rewrite: "never" }],
  ["pages", "op24", { cache: "paged", blockSize: 4 }],
  ["pages of bytes", "op24", { cache: "paged", blockSize: 4, cacheType: "int8" }],
  ["linear caches and windows", "windowed", { inPlace: "require" }],
];
const told = { maxTokens: 6, temperature: 0, ignoreEnd: true } as const;

describe.each(forms)("%s", (name, folder, options) => {
  const load = (more: LoadLanguageModelOptions = {}): Promise<CausalLM> =>
    CausalLM.load(folders[folder].path, { context: 32, backend: "reference", ...options, ...more });

  test("are taken over by another model, which goes on as the first does", async () => {
    const [first, second] = [await load(), await load()];
    const made = await tokensOf(first.generate("One day", told));
    const bytes = await first.saveContext();
    await second.restoreContext(bytes);
    expect(Buffer.compare(Buffer.from(await second.saveContext()), Buffer.from(bytes))).toBe(0);
    const tokens = [...first.tokenizer.encode("One day"), ...made.map(({ token }) => token)];
    const [one, two] = [first, second].map((lm) => lm.generate(tokens, told));
    expect(await two.text()).toBe(await one.text());
    expect(two.summary.reusedTokens).toBe(tokens.length - 1);
    // Also from the middle of something larger.
    const larger = Buffer.alloc(bytes.length + 5);
    larger.set(bytes, 1);
    await second.restoreContext(larger.subarray(1, 1 + bytes.length));
    expect(Buffer.compare(Buffer.from(await second.saveContext()), Buffer.from(bytes))).toBe(0);
    await Promise.all([first.release(), second.release()]);
  });

  test("weigh what was read, whatever the context has room for", async () => {
    const bytesAt = async (context: number, maxTokens: number): Promise<number> => {
      const lm = await load({ context });
      await lm.generate("One day", { ...told, maxTokens }).text();
      const { length } = await lm.saveContext();
      await lm.release();
      return length;
    };
    const [short, roomy, longer] = [await bytesAt(32, 2), await bytesAt(128, 2), await bytesAt(128, 20)];
    expect(roomy).toBe(short);
    expect(longer).toBeGreaterThan(short);
    // 8 rows, and 26: as many times the bytes, but for a header.
    expect(longer / short).toBeLessThan(26 / 8 + 0.5);
  });

  test("damaged ones are refused or taken over to the bit", async () => {
    const lm = await load();
    await lm.generate("One day", told).text();
    const bytes = await lm.saveContext();
    await lm.generate("The wolf", told).text();
    const before = Buffer.from(await lm.saveContext());
    let [refused, taken] = [0, 0];
    const attempt = async (given: Uint8Array, what: string): Promise<string | undefined> => {
      let message: string | undefined;
      const sequences = lm.pages?.pool.sequences.length;
      const used = lm.pages?.pool.statistics.used;
      try {
        await lm.restoreContext(given);
      } catch (error) {
        if (!(error instanceof InsituError) || error.code !== "invalid-state")
          expect.fail(`${what}: ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`);
        message = error.message;
      }
      const after = Buffer.from(await lm.saveContext());
      if (Buffer.compare(after, message === undefined ? Buffer.from(given) : before) !== 0)
        expect.fail(`${what}: ${message ?? "taken over otherwise than it says"}`);
      if (message === undefined) {
        taken++;
        await lm.restoreContext(before);
      } else refused++;
      expect(lm.pages?.pool.sequences.length, what).toBe(sequences);
      expect(lm.pages?.pool.statistics.used, what).toBe(used);
      return message;
    };
    const lied = (word: number, by: number): Uint8Array => {
      const changed = bytes.slice();
      new DataView(changed.buffer).setUint32(4 * word, by, true);
      return changed;
    };
    const count = new DataView(bytes.buffer).getUint32(0, true);
    for (let length = 0; length < bytes.length; length += soak ? 7 : 97 + (length >> 3))
      await attempt(bytes.slice(0, length), `${length} bytes`);
    expect(taken).toBe(0);
    for (const wrong of [0, 1, count - 1, count + 1, 33, 2 ** 31, 2 ** 32 - 1])
      expect(await attempt(lied(0, wrong), `${wrong} tokens`), `${wrong} tokens`).toBeDefined();
    expect(await attempt(lied(0, 33), "33 tokens")).toMatch(/has 33 tokens, this model's contexts hold 32$/);
    const others: readonly unknown[] = [undefined, null, "x", 1e9, [1, 2], new ArrayBuffer(8)];
    for (const wrong of others)
      expect(await attempt(wrong as Uint8Array, JSON.stringify(wrong))).toBe("the saved context must be a Uint8Array");
    expect(await attempt(new Uint8Array([...bytes, 0]), "a byte more")).toBeDefined();
    // A token fewer than there are rows, the rest as it should be.
    const fewer = new Uint8Array(bytes.length - 4);
    fewer.set(bytes.subarray(0, 4 * count));
    new DataView(fewer.buffer).setUint32(0, count - 1, true);
    fewer.set(bytes.subarray(4 * (1 + count)), 4 * count);
    expect(await attempt(fewer, "a token fewer")).toBe(
      `the saved context has ${count - 1} tokens and ${count} rows of keys and values`,
    );
    const random = seededRandom(seed);
    const head = Math.min(bytes.length, 4 * (1 + count) + 600);
    for (let round = 0; round < (soak ? 3000 : 60); round++) {
      const changed = bytes.slice();
      const bit = Math.floor(random() * (round % 4 === 0 ? bytes.length : head) * 8);
      changed[bit >> 3] ^= 1 << (bit & 7);
      await attempt(changed, `seed ${seed}, bit ${bit}`);
    }
    console.log(`saved contexts, ${name}, seed ${seed}: ${refused} refused, ${taken} taken over`);
    expect(Math.min(refused, taken)).toBeGreaterThan(0);
    await lm.release();
  });
});

test("pages of other blocks, of another pool, or with no room for them", async () => {
  const load = (more: LoadLanguageModelOptions): Promise<CausalLM> =>
    CausalLM.load(folders.op24.path, { context: 32, backend: "reference", cache: "paged", blockSize: 4, ...more });
  const lm = await load({});
  await lm.generate("One day in the forest", told).text();
  const bytes = await lm.saveContext();
  const other = await load({ blockSize: 8 });
  await expect(other.restoreContext(bytes)).rejects.toThrow(
    /in blocks of 4 rows and \d+ bytes, these 1 in blocks of 8 rows/,
  );
  const small = await load({ blocks: 3 });
  await expect(small.restoreContext(bytes)).rejects.toThrow(/the pool of 3 blocks of 4 rows is full/);
  expect(small.pages!.pool.statistics).toMatchObject({ used: 0, free: 3 });
  const short = await load({ context: 8 });
  await expect(short.restoreContext(bytes)).rejects.toThrow(/tokens, this model's contexts hold 8/);
  for (const model of [lm, other, small, short]) await model.release();
});

test.each(["wasm", ...(noWebgpu === undefined ? (["webgpu"] as const) : [])] as const)(
  "bytes are those of what was read, not of the context, and another process goes on from them: %s",
  async (backend) => {
    const load = (context: number): Promise<CausalLM> => CausalLM.load(folders.op24.path, { backend, context });
    const [small, large] = [await load(32), await load(2048)];
    const prompt = "One day";
    const straight = await tokensOf(large.generate(prompt, { ...told, maxTokens: 12 }));
    // Whoever has read more before does not save that.
    await small.generate("A long day in the forest", told).text();
    const sizes = [];
    for (const lm of [small, large])
      for (const maxTokens of [2, 6, 10]) {
        await lm.generate(prompt, { ...told, maxTokens }).text();
        sizes.push((await lm.saveContext()).length);
      }
    expect(sizes.slice(0, 3)).toEqual(sizes.slice(3));
    // Four tokens more take as many bytes each time, but for digits in the header.
    const perToken = (sizes[2] - sizes[1]) / 4;
    expect(Math.abs(sizes[1] - sizes[0] - 4 * perToken)).toBeLessThan(100);
    await small.generate(prompt, told).text();
    const folder = mkdtempSync(join(tmpdir(), "insitu-saved-"));
    writeFileSync(join(folder, "context"), await small.saveContext());
    writeFileSync(
      join(folder, "resume.mjs"),
      `import { readFileSync } from "node:fs";
      import { CausalLM } from ${JSON.stringify(builtEntry)};
      const lm = await CausalLM.load(${JSON.stringify(folders.op24.path)}, { backend: "${backend}", context: 64 });
      await lm.restoreContext(readFileSync("context"));
      const prompt = [...lm.tokenizer.encode("${prompt}"), ...${JSON.stringify(straight.slice(0, 6).map(({ token }) => token))}];
      const generation = lm.generate(prompt, ${JSON.stringify(told)});
      const tokens = [];
      for await (const { token } of generation) tokens.push(token);
      console.log(JSON.stringify({ tokens, reused: generation.summary.reusedTokens, length: prompt.length }));
      await lm.release();`,
    );
    const output = execFileSync(process.execPath, ["resume.mjs"], { cwd: folder, encoding: "utf8" });
    const { tokens, reused, length } = JSON.parse(output) as { tokens: number[]; reused: number; length: number };
    expect(tokens).toEqual(straight.slice(6).map(({ token }) => token));
    expect(reused).toBe(length - 1);
    rmSync(folder, { recursive: true });
    await Promise.all([small.release(), large.release()]);
  },
);
