// Presents that stay inside, tried by a client that carries pasts: what it gets is what the reference gives it with caches carried by hand,
// and what onnxruntime gives; and the plain loop goes on in place. The loop is tried on every second of its decoders, and on all in the soak.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { exportedBytes, exportedTolerance } from "../support/exported-decoders.js";
import { Client, difference, materialized, type Past, pastDifference, type Step } from "./handle-client.js";
import { soak } from "../support/soak.js";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

/** Lets everything be collected that nobody holds, and those who wait for it hear of it. */
async function collect(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1));
  gc();
  await new Promise((resolve) => setTimeout(resolve, 20));
}

const published = writeModel(publishedDecoder(smallPublishedSizes, { type: "float32" }));

const open = async (bytes: Uint8Array, options: SessionOptions = {}): Promise<Client> =>
  new Client(await InferenceSession.create(bytes, { presents: "keep", ...options }));

/** The reference implementation: what a caller gets that carries every past by hand. */
const truth = (bytes: Uint8Array): Promise<Client> => open(bytes, { backend: "reference", presents: "copy" });

const token = (at: number): number => (at * 37 + 11) % 90;
const tokens = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => token(from + at));

/** Runs both, and compares all that they give. */
async function both(
  [ours, theirs]: readonly [Client, Client],
  rows: readonly (readonly number[])[],
  [past, carried]: readonly [Past, Past],
  tolerance = 2e-4,
): Promise<readonly [Step, Step]> {
  const steps = [await ours.run(rows, past), await theirs.run(rows, await materialized(carried))] as const;
  expect(await difference(...steps, tolerance)).toBe("");
  return steps;
}

const exported = [
  "gemma3_op18_sdpa",
  "llama_op20_eager",
  "llama_op24",
  "mistral_op24",
  "gpt2_op18_sdpa",
  "bloom_op24_eager",
  "llama_op17_eager_ts",
].filter((_, at) => soak || at % 2 === 0);

describe.each([["published", published] as const, ...exported.map((name) => [name, exportedBytes(name)] as const)])(
  "%s",
  (name, bytes) => {
    const tolerance = exportedTolerance(name);

    test("a loop goes on in place, with the reference's logits and presents", async () => {
      const clients = [await open(bytes), await truth(bytes)] as const;
      // GroupQueryAttention takes chunks of one text alone.
      const batch = name === "published" ? 1 : 2;
      let pasts: readonly [Past, Past] = [clients[0].empty(batch), clients[1].empty(batch)];
      // Nobody reads presents here but at the end: reading them is another test's.
      for (const count of [5, 1, 1, 3, 1, 1, 1]) {
        const rows = [tokens(pasts[0].rows, count), tokens(pasts[0].rows + 40, count)].slice(0, batch);
        const steps = [
          await clients[0].run(rows, pasts[0]),
          await clients[1].run(rows, await materialized(pasts[1])),
        ] as const;
        expect(await difference({ ...steps[0], tensors: {} }, { ...steps[1], tensors: {} }, tolerance)).toBe("");
        for (const [input, tensor] of Object.entries(steps[1].tensors))
          expect(String(steps[0].tensors[input])).toBe(String(tensor));
        pasts = steps;
      }
      expect(clients[0].runs).toMatchObject({
        started: 1,
        continued: 6,
        forked: 0,
        imported: 0,
        copied: 0,
        movedBytes: 0,
      });
      expect(await pastDifference(...pasts, tolerance)).toBe("");
    });
  },
);

describe("what else a caller may do", () => {
  test("branches from every earlier step", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const trunk: (readonly [Past, Past])[] = [[clients[0].empty(), clients[1].empty()]];
    for (let at = 0; at < 6; at++) {
      const past = trunk.at(-1)!;
      const ours = await clients[0].run([[token(at)]], past[0]);
      trunk.push([ours, await clients[1].run([[token(at)]], await materialized(past[1]))]);
    }
    for (const past of trunk.toReversed()) {
      const first = await clients[0].run([[3]], past[0]);
      const second = await clients[0].run([[4, 5]], past[0]);
      const [third, fourth] = [await clients[0].run([[6]], first), await clients[0].run([[6]], second)];
      const carried = await materialized(past[1]);
      const expected = [await clients[1].run([[3]], carried), await clients[1].run([[4, 5]], carried)];
      expect(await difference(first, expected[0], 2e-4)).toBe("");
      expect(await difference(second, expected[1], 2e-4)).toBe("");
      expect(await difference(third, await clients[1].run([[6]], await materialized(expected[0])), 2e-4)).toBe("");
      expect(await difference(fourth, await clients[1].run([[6]], await materialized(expected[1])), 2e-4)).toBe("");
    }
    for (const past of trunk.slice(1)) expect(await pastDifference(...past, 2e-4)).toBe("");
    expect(clients[0].runs?.forked).toBeGreaterThan(6);
    expect(clients[0].runs?.copied).toBe(0);
  });

  test("the same present to two runs at once, and to one that asks for logits alone", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const [past, carried] = await both(clients, [tokens(0, 4)], [clients[0].empty(), clients[1].empty()]);
    const ours = await clients[0].run([[9]], {
      ...past,
      tensors: (await clients[0].run([tokens(0, 4)], clients[0].empty())).tensors,
    });
    const alone = { fetches: [clients[0].logits] };
    const answers = await Promise.all([
      clients[0].run([[1]], ours),
      clients[0].run([[2]], ours),
      clients[0].run([[7]], ours, alone),
      clients[0].run([[1]], ours),
    ]);
    const held = await materialized(await clients[1].run([[9]], await materialized(carried)));
    for (const [at, next] of [1, 2, 7, 1].entries()) {
      const expected = await clients[1].run([[next]], held);
      if (next === 7)
        expect(await difference({ ...answers[at], tensors: {} }, { ...expected, tensors: {} }, 2e-4)).toBe("");
      else expect(await difference(answers[at], expected, 2e-4)).toBe("");
    }
    const after = await clients[0].run([[8]], ours, alone);
    const again = await clients[1].run([[8]], held);
    expect(await difference({ ...after, tensors: {} }, { ...again, tensors: {} }, 2e-4)).toBe("");
  });

  test("feeds that are changed while an earlier run goes on are those that were given", async () => {
    const client = await open(published);
    const start = await client.run([tokens(0, 4)], client.empty());
    const expected = await client.run([[5]], start);
    const feeds = client.feeds([[5]], start);
    const [, late] = [client.run([[1]], start), client.session.run(feeds)];
    (feeds["input_ids"].data as BigInt64Array)[0] = 60n;
    expect((await late)[client.logits].data).toEqual(expected.logits.data);
  });

  test("conversations that take turns, presents read in the middle and written by the caller", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const talks = [0, 20, 50].map((from) => ({
      from,
      past: [clients[0].empty(), clients[1].empty()] as readonly [Past, Past],
    }));
    for (let turn = 0; turn < 4; turn++)
      for (const talk of talks)
        talk.past = await both(clients, [tokens(talk.from + turn, turn === 0 ? 3 : 1)], talk.past);
    const [[ours, theirs]] = talks.map(({ past }) => past);
    const changed = [ours, await materialized(theirs)] as const;
    for (const { tensors } of changed)
      for (const tensor of Object.values(tensors)) (tensor.data as Float32Array)[1] += 0.5;
    await both(clients, [[4]], changed);
  });

  test("pasts made by hand, mixed ones, reordered samples, and another session's", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const other = await open(published);
    const rows = [tokens(0, 4), tokens(30, 4)];
    const run = async (client: Client): Promise<Step> => client.run(rows, client.empty(2));
    const [a, b, c] = [
      await run(clients[0]),
      await clients[0].run(rows.toReversed(), clients[0].empty(2)),
      await run(other),
    ];
    const carried = [
      await materialized(await run(clients[1])),
      await materialized(await clients[1].run(rows.toReversed(), clients[1].empty(2))),
    ];
    const names = Object.keys(a.tensors);
    const mix = (x: Past, y: Past): Past => ({
      ...x,
      tensors: Object.fromEntries(names.map((name, at) => [name, (at % 2 === 0 ? x : y).tensors[name]])),
    });
    const next = [[7], [8]];
    const expectSame = async (past: Past, expected: Past): Promise<void> => {
      const steps = [await clients[0].run(next, past), await clients[1].run(next, expected)] as const;
      expect(await difference(...steps, 2e-4)).toBe("");
    };
    await expectSame(mix(a, b), mix(carried[0], carried[1]));
    await expectSame(c, carried[0]);
    await expectSame(mix(a, c), carried[0]);
    // Keys in the place of values: of the same shape, and of the same run.
    const swap = ({ rows: count, tensors }: Past): Past => ({
      rows: count,
      tensors: Object.fromEntries(names.map((name, at) => [name, tensors[names[at ^ 1]]])),
    });
    await expectSame(swap(a), swap(carried[0]));
    const reordered = (past: Past): Past => ({
      ...past,
      tensors: Object.fromEntries(
        Object.entries(past.tensors).map(([name, tensor]) => {
          const [data, half] = [tensor.data as Float32Array, tensor.size / 2];
          return [
            name,
            new Tensor("float32", Float32Array.from([...data.subarray(half), ...data.subarray(0, half)]), tensor.dims),
          ];
        }),
      ),
    });
    await expectSame(reordered(await materialized(a)), reordered(carried[0]));
    expect(clients[0].runs?.copied).toBe(0);
    await expectSame(a, carried[0]);
  });

  test("masks with holes, padding and positions that jump: in place where that is the same, else the plain way", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const rows = [tokens(0, 4), tokens(30, 4)];
    const padded = { mask: [0, 0, 1, 1, 1, 1, 1, 1] };
    let pasts: readonly [Past, Past] = [clients[0].empty(2), clients[1].empty(2)];
    const step = async (
      next: readonly (readonly number[])[],
      otherwise: { mask: readonly number[] },
    ): Promise<void> => {
      const steps = [
        await clients[0].run(next, pasts[0], otherwise),
        await clients[1].run(next, await materialized(pasts[1]), otherwise),
      ] as const;
      expect(await difference(...steps, 2e-4)).toBe("");
      pasts = steps;
    };
    await step(rows, padded);
    await step([[1], [2]], { mask: [0, 0, 1, 1, 1, 1, 1, 1, 1, 1] });
    expect(clients[0].runs).toMatchObject({ copied: 2, started: 0 });
    // From kept rows to a mask that hides some of them.
    const llama = exportedBytes("llama_op20_eager");
    const [ours, theirs] = [await open(llama), await truth(llama)];
    const [a, b] = [await ours.run(rows, ours.empty(2)), await materialized(await theirs.run(rows, theirs.empty(2)))];
    for (const otherwise of [{ mask: [1, 0, 1, 1, 1, 1, 1, 1, 1, 1] }, { positions: [9, 3] }]) {
      const steps = [await ours.run([[1], [2]], a, otherwise), await theirs.run([[1], [2]], b, otherwise)] as const;
      expect(await difference(...steps, 2e-4)).toBe("");
    }
    expect(ours.runs).toMatchObject({ copied: 0, started: 1, forked: 1, continued: 1 });
  });

  // With padding the first run is a plain one, whose queries of padding see nothing; what follows goes on in place. Where positions or biases
  // are counted from the mask itself, all of it is plain.
  test.each([
    ["llama_op20_eager", 5],
    ["llama_op17_eager_ts", 5],
    ["gpt2_op18_sdpa", 5],
    ["mistral_op24", 5],
    ["gemma2_op24_eager", 5],
    ["phi3_op24_sdpa", 5],
    ["bloom_op18_eager", 0],
    ["opt_op18_sdpa", 0],
  ])("%s: texts padded on the left", async (name, inPlace) => {
    const bytes = exportedBytes(name);
    const [ours, theirs] = [await open(bytes), await truth(bytes)];
    let pasts: readonly [Past, Past] = [ours.empty(2), theirs.empty(2)];
    for (let total = 4; total < 10; total++) {
      const count = total === 4 ? 4 : 1;
      const valid = [1, 2].map((pads) => Array.from({ length: total }, (_, column) => Number(column >= pads)));
      const places = [1, 2].map((pads) => Array.from({ length: total }, (_, at) => (at < pads ? 1 : at - pads)));
      const otherwise = { mask: valid.flat(), positions: places.flatMap((row) => row.slice(-count)) };
      const next = [tokens(total, count), tokens(30 + total, count)];
      const steps = [
        await ours.run(next, pasts[0], otherwise),
        await theirs.run(next, await materialized(pasts[1]), otherwise),
      ] as const;
      expect(await difference({ ...steps[0], tensors: {} }, { ...steps[1], tensors: {} }, 2e-4), `${total}`).toBe("");
      pasts = steps;
    }
    expect(await pastDifference(...pasts, 2e-4)).toBe("");
    expect(ours.runs).toMatchObject({
      started: 0,
      copied: 6 - inPlace,
      imported: Math.min(inPlace, 1),
      continued: Math.max(inPlace - 1, 0),
      forked: 0,
    });
  });

  test("a text longer than the first reserve: caches grow by doubling", async () => {
    const bytes = writeModel(
      publishedDecoder({ ...smallPublishedSizes, layers: 1, positions: 1024 }, { type: "float32" }),
    );
    const [ours, theirs] = [await open(bytes), await open(bytes, { presents: "copy" })];
    let pasts: readonly [Past, Past] = [ours.empty(), theirs.empty()];
    for (const count of [200, 20, 30, 1, 4, 1, 1, 300, 1]) {
      const rows = [tokens(pasts[0].rows, count)];
      const steps = [await ours.run(rows, pasts[0]), await theirs.run(rows, pasts[1])] as const;
      expect(await difference({ ...steps[0], tensors: {} }, { ...steps[1], tensors: {} }, 2e-4)).toBe("");
      pasts = steps;
    }
    expect(ours.runs).toMatchObject({ started: 1, continued: 8, copied: 0 });
    expect(ours.runs!.movedBytes).toBeGreaterThan(0);
    expect(await pastDifference(...pasts, 2e-4)).toBe("");
  });

  test("a present that was disposed cannot be fed; others of its run can be read", async () => {
    const client = await open(published);
    const past = await client.run([tokens(0, 4)], client.empty());
    const [first, second] = Object.values(past.tensors);
    first.dispose();
    expect(first.location).toBe("none");
    await expect(client.run([[1]], past)).rejects.toThrow(/was disposed/);
    expect((await second.getData()).length).toBe(second.size);
    const shaped = (await client.run([[1]], client.empty())).tensors;
    const [name] = Object.keys(shaped);
    const flat = shaped[name].reshape([shaped[name].size]);
    for (const tensor of Object.values(shaped)) tensor.dispose();
    expect((await flat.getData()).length).toBe(flat.size);
    await client.session.release();
    await expect(client.run([[1]], past)).rejects.toThrow(/released/);
  });

  test('presents: "copy", and what cannot be kept, is told', async () => {
    const copying = await open(published, { presents: "copy" });
    expect(copying.session.explain({ json: true }).presents).toBe(undefined);
    const fixed = await open(exportedBytes("llama_static_op24"));
    expect(fixed.session.explain({ json: true }).presents).toBe(undefined);
    const required = await open(published, { inPlace: "never" });
    expect(required.session.explain()).toMatch(/copied: the session was created with inPlace: "never"/);
    const unread = buildModel({
      nodes: [node("Concat", ["past", "u"], ["present"], { axis: 1 })],
      inputs: [value("past", "float32", ["batch", "rows", 2]), value("u", "float32", ["batch", "new", 2])],
      outputs: [value("present")],
      opset: 24,
    });
    expect((await open(writeModel(unread))).session.explain()).toMatch(/copied: cache "past" cannot be rewritten/);
    expect((await open(published)).session.explain()).toMatch(/kept inside/);
    await expect(open(published, { presents: "move" as "copy" })).rejects.toThrow(/presents must be "keep" or "copy"/);
  });

  test("a present that is given as a target is the caller's own from then on", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const [past, other] = [
      await clients[0].run([tokens(0, 4)], clients[0].empty()),
      await clients[0].run([tokens(30, 4)], clients[0].empty()),
    ];
    const pairs = clients[0].session.heldInputs;
    const targets = Object.fromEntries(pairs.map(({ input, output }) => [output, other.tensors[input]]));
    const results = await clients[0].session.run(clients[0].feeds([tokens(0, 4)], clients[0].empty()), targets);
    for (const { input, output } of pairs) expect(results[output]).toBe(other.tensors[input]);
    expect(await pastDifference(other, past, 2e-4)).toBe("");
    const carried = await materialized(await clients[1].run([tokens(0, 4)], clients[1].empty()));
    await both(clients, [[1]], [other, carried]);
  });

  test("a memory limit that allows no caches leaves the plain path", async () => {
    const [ours, theirs] = [await open(published, { memoryLimit: 460_000 }), await truth(published)];
    await both([ours, theirs], [tokens(0, 4)], [ours.empty(), theirs.empty()]);
    expect(ours.runs).toMatchObject({ copied: 1, started: 0 });
  });

  test("what the model refuses leaves the presents as they are", async () => {
    const clients = [await open(published), await truth(published)] as const;
    const past = await clients[0].run([tokens(0, 4)], clients[0].empty());
    await expect(clients[0].run([[9999]], past)).rejects.toThrow(/9999/);
    const carried = await materialized(await clients[1].run([tokens(0, 4)], clients[1].empty()));
    await both(clients, [[1]], [past, carried]);
  });

  test("what is disposed or dropped gives its caches back", async () => {
    const client = await open(published);
    const held = (): number => client.runs!.heldBytes;
    const past = await client.run([tokens(0, 4)], client.empty());
    const one = held();
    expect(one).toBeGreaterThan(0);
    const next = await client.run([[1]], past);
    expect(held()).toBe(one);
    for (const tensor of Object.values(past.tensors)) tensor.dispose();
    expect(held()).toBe(one);
    for (const tensor of Object.values(next.tensors)) tensor.dispose();
    expect(held()).toBe(0);
    // No tensor of theirs is in sight when the garbage is collected.
    await (async () => {
      const start = await client.run([tokens(0, 4)], client.empty());
      await Promise.all([
        client.run([[1]], start),
        client.run([[2]], start),
        client.run([tokens(9, 3)], client.empty()),
      ]);
      await client.run([[1]], start, { fetches: [client.logits] });
    })();
    expect(held()).toBe(3 * one);
    for (let round = 0; round < 20 && held() > 0; round++) await collect();
    expect(held()).toBe(0);
  });

  test("memory is flat over a long text", async () => {
    const bytes = writeModel(
      publishedDecoder({ ...smallPublishedSizes, layers: 1, positions: 4096 }, { type: "float32" }),
    );
    const client = await open(bytes);
    const count = soak ? 2000 : 300;
    let past: Past = await client.run([[1]], client.empty());
    for (let at = 0; at < 20; at++) past = await client.run([[token(at)]], past);
    await collect();
    const { allocations } = client.session.memory;
    const before = process.memoryUsage();
    for (let at = 0; at < count; at++) past = await client.run([[token(at)]], past);
    await collect();
    const after = process.memoryUsage();
    expect(client.runs).toMatchObject({ started: 1, continued: 20 + count, copied: 0 });
    // One conversation, doubled a few times; nothing for each token.
    const rows = (at: number): number => 256 * 2 ** Math.max(0, Math.ceil(Math.log2((at + 33) / 256)));
    const { keyValueHeads, headSize } = smallPublishedSizes;
    expect(client.runs!.heldBytes).toBeLessThanOrEqual(2 * rows(21 + count) * keyValueHeads * headSize * 4);
    expect(client.session.memory.allocations - allocations).toBeLessThan(count);
    expect(after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers).toBeLessThan(12e6);
  });
});
