// Saved states, damaged in every way: what is taken over is what the bytes say, to the bit, or an error names what is wrong and nothing has
// changed. Two oracles: a state that took bytes over saves those very bytes, and one that refused saves what it saved before.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { builtEntry } from "../support/built.js";
import { decoderSession, step, tokens } from "../support/decoding.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 99);

/** Caches of several types that TensorScatter writes; names that objects have of their own among them. */
const caches = [
  ["__proto__", "float32"],
  ["constructor", "float16"],
  ["7", "int8"],
  ["past", "bool"],
] as const;
const fixedModel = (mode = "linear"): Model =>
  buildModel({
    opset: 24,
    inputs: [
      ...caches.map(([name, type]) => value(name, type, ["batch", "capacity", 2])),
      ...caches.map(([, type]) => value(`${type}_rows`, type, ["batch", "sequence", 2])),
      value("write_indices", "int64", ["batch"]),
    ],
    outputs: caches.map(([, type]) => value(`${type}_present`, type, ["batch", "capacity", 2])),
    nodes: caches.map(([name, type]) =>
      node("TensorScatter", [name, `${type}_rows`, "write_indices"], [`${type}_present`], { axis: 1, mode }),
    ),
  });

/** A cache that grows. */
const growingModel = buildModel({
  opset: 24,
  inputs: [value("past", "float32", ["batch", "rows", 2]), value("more", "float32", ["batch", "sequence", 2])],
  outputs: [value("present", "float32", ["batch", "total", 2])],
  nodes: [node("Concat", ["past", "more"], ["present"], { axis: 1 })],
});

const random = seededRandom(seed);
const filled = (type: "float32" | "float16" | "int8" | "bool", dims: readonly number[]): Tensor => {
  const size = dims.reduce((product, dim) => product * dim, 1);
  const list = Array.from({ length: size }, () => Math.floor(random() * 100) - 50);
  if (type === "float32")
    return new Tensor(
      type,
      Float32Array.from(list, (number) => number / 7),
      dims,
    );
  if (type === "float16")
    return new Tensor(
      type,
      Uint16Array.from(list, (number) => 15_000 + number),
      dims,
    );
  return type === "int8"
    ? new Tensor(type, Int8Array.from(list), dims)
    : new Tensor(
        type,
        Uint8Array.from(list, (number) => number & 1),
        dims,
      );
};

interface Kind {
  readonly name: string;
  readonly open: () => Promise<{ readonly session: InferenceSession; readonly filledState: () => Promise<State> }>;
}

const fixed = (mode: string): Kind => ({
  name: `fixed caches of four types, ${mode}`,
  async open() {
    const session = await InferenceSession.create(writeModel(fixedModel(mode)), { backend: "reference" });
    return {
      session,
      async filledState() {
        const state = session.createState({ dims: { batch: 2, capacity: 4 } });
        const feeds = Object.fromEntries(caches.map(([, type]) => [`${type}_rows`, filled(type, [2, 3, 2])]));
        await session.run(feeds, { state });
        if (mode === "circular") await session.run(feeds, { state });
        return state;
      },
    };
  },
});

const kinds: readonly Kind[] = [
  fixed("linear"),
  fixed("circular"),
  {
    name: "a growing cache",
    async open() {
      const session = await InferenceSession.create(writeModel(growingModel), { backend: "reference" });
      return {
        session,
        async filledState() {
          const state = session.createState({ dims: { batch: 1 } });
          await session.run({ more: filled("float32", [1, 5, 2]) }, { state });
          return state;
        },
      };
    },
  },
];

const headLengthOf = (bytes: Uint8Array): number =>
  Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
const headerOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes.subarray(8, 8 + headLengthOf(bytes)));

/** The same contents behind another header, padded as it should be unless told otherwise. */
function withHeader(bytes: Uint8Array, text: string, { pad = true }: { pad?: boolean } = {}): Uint8Array {
  const plain = new TextEncoder().encode(text);
  const head = new Uint8Array(pad ? Math.ceil(plain.length / 8) * 8 : plain.length).fill(32);
  head.set(plain);
  const data = bytes.subarray(8 + headLengthOf(bytes));
  const made = new Uint8Array(8 + head.length + data.length);
  new DataView(made.buffer).setBigUint64(0, BigInt(head.length), true);
  made.set(head, 8);
  made.set(data, 8 + head.length);
  return made;
}

/** A file of the version before is one of this version with all its rows. */
const asNow = (bytes: Uint8Array): Buffer =>
  Buffer.from(Buffer.from(bytes).toString("latin1").replace('"version":"1"', '"version":"2"'), "latin1");

/** Counts what became of damaged bytes: each is taken over to the bit, or refused with nothing changed. */
class Judge {
  readonly #target: State;
  readonly #fork: State;
  readonly #before: Buffer;
  taken = 0;
  refused = 0;

  private constructor(target: State, before: Buffer) {
    this.#target = target;
    this.#fork = target.fork();
    this.#before = before;
  }

  static async of(target: State): Promise<Judge> {
    return new Judge(target, Buffer.from(await target.save()));
  }

  /** The message of a refusal; undefined where the bytes were taken over. */
  async try(bytes: Uint8Array, what: string): Promise<string | undefined> {
    let message: string | undefined;
    try {
      await this.#target.restore(bytes);
    } catch (error) {
      if (!(error instanceof InsituError) || error.code !== "invalid-state")
        expect.fail(`${what}: ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`);
      message = error.message;
    }
    const wanted = message === undefined ? asNow(bytes) : this.#before;
    if (Buffer.compare(Buffer.from(await this.#target.save()), wanted) !== 0)
      expect.fail(
        `${what}: ${message === undefined ? "taken over otherwise than it says" : `changed, and ${message}`}`,
      );
    if (Buffer.compare(Buffer.from(await this.#fork.save()), this.#before) !== 0)
      expect.fail(`${what}: a fork was changed`);
    if (message === undefined) {
      this.taken++;
      await this.#target.restore(this.#before);
    } else this.refused++;
    return message;
  }
}

/** Values that stand where others belong. */
const garbage: readonly unknown[] = [
  null,
  true,
  0,
  1,
  -1,
  0.5,
  1e308,
  2 ** 53,
  2 ** 32,
  "",
  "F32",
  "x".repeat(100),
  [],
  [0, 0],
  [null],
  {},
  { __proto__: null, a: 1 },
  "float32[1,4,2]",
  "float32[999999999999999,999999999999999,2]",
  '{"__proto__":"float32[1]"}',
  "[9007199254740991]",
  "null",
];

type Path = readonly (string | number)[];

/** Every place in a value, strings that hold JSON opened up. */
function* placesOf(value: unknown, path: Path = []): Generator<Path> {
  yield path;
  if (typeof value !== "object" || value === null) return;
  for (const key of Object.keys(value)) yield* placesOf((value as Record<string, unknown>)[key], [...path, key]);
}

/** A copy of a value with something else, or nothing, at a place. */
function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by;
  if (Array.isArray(value))
    return value.flatMap((item, at) => {
      if (String(at) !== String(key)) return [item];
      const made = replaced(item, rest, by);
      return made === undefined ? [] : [made];
    });
  return Object.fromEntries(
    Object.entries(value as object).flatMap(([name, item]) => {
      if (name !== key) return [[name, item]];
      const made = replaced(item, rest, by);
      return made === undefined ? [] : [[name, made]];
    }),
  );
}

describe.each(kinds)("$name", ({ open }) => {
  test("what was saved is taken over, by states that are empty, filled, or forked", async () => {
    const { session, filledState } = await open();
    const state = await filledState();
    const bytes = await state.save();
    expect(headLengthOf(bytes) % 8).toBe(0);
    for (const target of [await filledState(), (await filledState()).fork()]) {
      await target.restore(bytes);
      expect(target.lengths).toEqual(state.lengths);
      expect(Buffer.compare(Buffer.from(await target.save()), Buffer.from(bytes))).toBe(0);
      // Also from the middle of something larger, at any alignment.
      const larger = new Uint8Array(bytes.length + 7);
      larger.set(bytes, 3);
      await target.restore(larger.subarray(3, 3 + bytes.length));
      await target.restore(Buffer.from(bytes));
    }
    await session.release();
  });

  test("every place of the header replaced by garbage, left out, or there twice", async () => {
    const { session, filledState } = await open();
    const bytes = await (await filledState()).save();
    const judge = await Judge.of(await filledState());
    const header = JSON.parse(headerOf(bytes)) as Record<string, unknown>;
    for (const path of placesOf(header))
      for (const by of [...garbage, undefined])
        await judge.try(
          withHeader(bytes, JSON.stringify(replaced(header, path, by)) ?? ""),
          `${path.join("/")} = ${JSON.stringify(by)}`,
        );
    // The metadata's own JSON.
    for (const inner of ["lengths", "types"]) {
      const metadata = header["__metadata__"] as Record<string, string>;
      const opened = JSON.parse(metadata[inner]) as unknown;
      for (const path of placesOf(opened))
        for (const by of [...garbage, undefined]) {
          const changed = { ...metadata, [inner]: JSON.stringify(replaced(opened, path, by)) };
          await judge.try(
            withHeader(bytes, JSON.stringify(replaced(header, ["__metadata__"], changed))),
            `${inner}/${path.join("/")} = ${JSON.stringify(by)}`,
          );
        }
    }
    const text = headerOf(bytes).trimEnd();
    const refusals: [string, string, RegExp][] = [
      ["a name twice", text.replace("{", `{${JSON.stringify(Object.keys(header)[0])}:null,`), /a name comes twice/],
      [
        "a name more",
        JSON.stringify({ ...header, more: { dtype: "U8", shape: [0], data_offsets: [0, 0] } }),
        /holds "more"/,
      ],
      ["__proto__ more", text.replace(/^\{/, '{"__proto__":{"polluted":1},'), /a name comes twice|holds "__proto__"/],
      ["white space", text.replace(":", ": "), /insitu does not write/],
      ["a number spelt otherwise", text.replace('"data_offsets":[0,', '"data_offsets":[0e0,'), /insitu does not write/],
      ["deep", "[".repeat(4000) + "]".repeat(4000), /header/],
      ["not closed", "[".repeat(4000), /header that is not JSON/],
      ["nothing", "", /header that is not JSON/],
    ];
    for (const [what, changed, message] of refusals)
      expect(await judge.try(withHeader(bytes, changed), what)).toMatch(message);
    expect(await judge.try(withHeader(bytes, `${text} `.padEnd(text.length + 16), {}), "padding")).toMatch(
      /has a header that is not padded to 8 bytes/,
    );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    console.log(`header of ${Object.keys(header).length} names: ${judge.refused} refused, ${judge.taken} taken over`);
    expect(judge.refused).toBeGreaterThan(400);
    await session.release();
  });

  test("cut off at every length, and longer than it should be", async () => {
    const { session, filledState } = await open();
    const bytes = await (await filledState()).save();
    const judge = await Judge.of(await filledState());
    for (let length = 0; length < bytes.length; length += soak ? 1 : 3)
      await judge.try(bytes.slice(0, length), `${length} bytes`);
    for (const more of [1, 8, 1000]) {
      const longer = new Uint8Array(bytes.length + more);
      longer.set(bytes);
      expect(await judge.try(longer, `${more} bytes more`)).toMatch(`has ${more} bytes behind its last cache`);
    }
    expect(judge.taken).toBe(0);
    for (const length of [0n, 1n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) {
      const lied = bytes.slice();
      new DataView(lied.buffer).setBigUint64(0, length, true);
      expect(await judge.try(lied, `a header of ${length} bytes`)).toBeDefined();
    }
    const others: readonly unknown[] = [undefined, null, "bytes", 12, [1, 2], new ArrayBuffer(8)];
    for (const wrong of others)
      expect(await judge.try(wrong as Uint8Array, JSON.stringify(wrong))).toBe("the saved state must be a Uint8Array");
    await session.release();
  });

  test("bits flipped", async () => {
    const { session, filledState } = await open();
    const bytes = await (await filledState()).save();
    const judge = await Judge.of(await filledState());
    const header = 8 + headLengthOf(bytes);
    const flip = async (...bits: readonly number[]): Promise<void> => {
      const changed = bytes.slice();
      for (const bit of bits) changed[bit >> 3] ^= 1 << (bit & 7);
      await judge.try(changed, `seed ${seed}, bits ${bits.join(", ")}`);
    };
    for (let bit = 0; bit < bytes.length * 8; bit += soak ? 1 : 7) await flip(bit);
    for (let round = 0; round < (soak ? 20_000 : 300); round++)
      await flip(...Array.from({ length: 2 + Math.floor(random() * 6) }, () => Math.floor(random() * header * 8)));
    console.log(`bits flipped, seed ${seed}: ${judge.refused} refused, ${judge.taken} taken over`);
    expect(Math.min(judge.refused, judge.taken)).toBeGreaterThan(0);
    await session.release();
  });
});

test("offsets that overlap, leave gaps, or lie outside; lengths above the capacity; types that do not fit", async () => {
  const { session, filledState } = await fixed("linear").open();
  const bytes = await (await filledState()).save();
  const judge = await Judge.of(await filledState());
  const change = (path: Path, by: unknown): Promise<string | undefined> =>
    judge.try(withHeader(bytes, JSON.stringify(replaced(JSON.parse(headerOf(bytes)), path, by))), path.join("/"));
  // Three rows were written, of four that there are.
  const size = 4 * 2 * 3 * 2;
  expect(await change(["constructor", "data_offsets"], [0, 24])).toMatch(
    /has wrong offsets: "__proto__" begins at byte 0, what comes before it ends at 24$/,
  );
  expect(await change(["__proto__", "data_offsets"], [size * 100, size * 101])).toMatch(/begins at byte/);
  expect(await change(["past", "data_offsets"], [-16, 0])).toMatch(/wrong offsets for "past": \[-16,0\] for 12 bytes/);
  expect(await change(["past", "data_offsets"], null)).toMatch(/wrong offsets for "past": null/);
  expect(await change(["past"], null)).toMatch(/has null for "past"/);
  expect(await change(["past", "dtype"], "I8")).toMatch(/for "past", which as "bool\[2,3,2\]" is .*BOOL/);
  expect(await change(["past", "shape"], [2, 8])).toMatch(/for "past"/);
  const metadata = ["__metadata__"] as const;
  expect(await change([...metadata, "lengths"], "[3,5]")).toBe(
    "the saved state has 5 rows for sample 1, its caches hold 3",
  );
  expect(await change([...metadata, "lengths"], "[3]")).toBe("the saved state has 1 samples, this one has 2");
  expect(await change([...metadata, "lengths"], "[3,-1]")).toMatch(/no valid lengths: \[3,-1\]/);
  expect(await change([...metadata, "version"], { toString: 1 })).toMatch(/has version/);
  const types = JSON.parse(
    (JSON.parse(headerOf(bytes)) as Record<string, Record<string, string>>)["__metadata__"]["types"],
  ) as Record<string, string>;
  expect(await change([...metadata, "types"], JSON.stringify({ ...types, past: "string[2,4,2]" }))).toMatch(
    /has "string\[2,4,2\]" for cache "past", which is bool\[2,4,2\]/,
  );
  await session.release();
});

test.each([
  ["a scatter of something else wraps", { mode: "circular" }, ["rows"]],
  ["a scatter of something else is wider", { mode: "linear" }, ["wide"]],
] as const)("lengths that a run left are taken back, also above the capacity: %s", async (_, attributes, [other]) => {
  const model = buildModel({
    opset: 24,
    inputs: [
      value("past", "float32", ["batch", "capacity", 2]),
      value("more", "float32", ["batch", "sequence", 2]),
      value("rows", "float32", ["batch", 4, 2]),
      value("wide", "float32", ["batch", 16, 2]),
      value("where", "int64", ["batch"]),
    ],
    outputs: [value("present", "float32"), value("elsewhere", "float32")],
    nodes: [
      node("TensorScatter", ["past", "more"], ["present"], { axis: 1 }),
      node("Neg", [other], ["made"]),
      node("TensorScatter", ["made", "more", "where"], ["elsewhere"], { axis: 1, ...attributes }),
    ],
  });
  const session = await InferenceSession.create(writeModel(model), { backend: "reference" });
  const state = session.createState({ dims: { batch: 2, capacity: 4 } });
  const feeds = {
    more: filled("float32", [2, 3, 2]),
    rows: filled("float32", [2, 4, 2]),
    wide: filled("float32", [2, 16, 2]),
  };
  await session.run({ ...feeds, where: new Tensor("int64", BigInt64Array.of(3n, 7n), [2]) }, ["elsewhere"], { state });
  expect(state.lengths).toEqual([6, 10]);
  const again = session.createState({ dims: { batch: 2, capacity: 4 } });
  await again.restore(await state.save());
  expect([again.lengths, await again.save()]).toEqual([[6, 10], await state.save()]);
  await session.release();
});

test("what restoring takes is bounded by the file", async () => {
  const session = await decoderSession({ backend: "reference" });
  const state = session.createState({ dims: { batch: 1, capacity: 16_384 } });
  const [name] = state.names;
  // Whoever sets a cache has written every row of it.
  const { size, dims } = state.get(name);
  state.set(name, new Tensor("float32", new Float32Array(size), dims));
  const bytes = await state.save();
  const header = JSON.parse(headerOf(bytes)) as Record<string, { data_offsets: number[] }>;
  const [first] = Object.keys(header);
  // All caches in one place, and many more of them than there are.
  const everywhere = Object.fromEntries(
    Array.from({ length: 400 }, (_, at) => [`past.${at}.key`, { ...header[first], data_offsets: [0, 16_384 * 64] }]),
  );
  const overlapping = withHeader(bytes, JSON.stringify({ ...everywhere, ...header }));
  const deep = withHeader(bytes, "[".repeat(4 << 20));
  for (const wrong of [overlapping, deep]) {
    const { arrayBuffers, heapUsed } = process.memoryUsage();
    const parse = vi.spyOn(JSON, "parse");
    await expect(state.restore(wrong)).rejects.toThrow(
      /has a header of \d+ bytes, one for this state takes \d+ at most/,
    );
    // Refused by its length, before a word of it is looked at.
    expect(parse).not.toHaveBeenCalled();
    parse.mockRestore();
    const after = process.memoryUsage();
    expect(after.arrayBuffers + after.heapUsed - arrayBuffers - heapUsed).toBeLessThan(bytes.length);
  }
  await state.restore(bytes);
  await session.release();
});

test("a cache that cannot be saved says so", async () => {
  const model = buildModel({
    opset: 24,
    inputs: [
      value("__metadata__", "float32", ["batch", "rows", 2]),
      value("more", "float32", ["batch", "sequence", 2]),
    ],
    outputs: [value("present", "float32", ["batch", "total", 2])],
    nodes: [node("Concat", ["__metadata__", "more"], ["present"], { axis: 1 })],
  });
  const session = await InferenceSession.create(writeModel(model), { backend: "reference" });
  await expect(session.createState({ dims: { batch: 1 } }).save()).rejects.toThrow(
    '"__metadata__" cannot be saved: safetensors keeps that name for itself',
  );
  await session.release();
});

test("saved in one process, restored in another, on either backend", async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-restore-"));
  const session = await decoderSession({ backend: "reference" });
  const state = session.createState({ dims: { batch: 1, capacity: 16 } });
  await step(session, state, tokens(0, 9));
  const { generatedDecoder, smallSizes } = await import("../../tools/demo/decoder.js");
  writeFileSync(join(folder, "model.onnx"), writeModel(generatedDecoder(smallSizes)));
  writeFileSync(join(folder, "restored"), await state.save());
  // Each process goes on from what the one before it saved.
  const script = `
    import { readFileSync, writeFileSync } from "node:fs";
    import { InferenceSession, Tensor } from ${JSON.stringify(builtEntry)};
    const [backend, token] = [process.argv[2], BigInt(process.argv[3])];
    const session = await InferenceSession.create("model.onnx", { backend });
    const state = session.createState({ dims: { batch: 1, capacity: 16 } });
    await state.restore(readFileSync("restored"));
    const ids = (values) => new Tensor("int64", BigInt64Array.from(values), [1, values.length]);
    const { logits } = await session.run({ input_ids: ids([token]), position_ids: ids([BigInt(state.lengths[0])]) }, { state });
    writeFileSync("restored", await state.save());
    console.log(JSON.stringify({ lengths: state.lengths, logits: [...logits.data] }));
    await session.release();`;
  writeFileSync(join(folder, "restore.mjs"), script);
  for (const [at, backend] of ["wasm", "reference", "wasm"].entries()) {
    const output = execFileSync(process.execPath, ["restore.mjs", backend, String(20 + at)], {
      cwd: folder,
      encoding: "utf8",
    });
    const { lengths, logits } = JSON.parse(output) as { lengths: number[]; logits: number[] };
    const wanted = await step(session, state, [20 + at]);
    expect(lengths).toEqual([10 + at]);
    expect(logits).toHaveLength(wanted.length);
    logits.forEach((logit, index) => expect(logit).toBeCloseTo(wanted[index], 4));
  }
  rmSync(folder, { recursive: true });
  await session.release();
});
