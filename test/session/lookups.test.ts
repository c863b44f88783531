// How often a run with a state asks for a program: once, also where lengths are left out, if the shapes of its inputs tell how many rows are
// new. Counted by a backend of the test; results are those of runs whose lengths are fed.
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import type { BackendChoice } from "../../src/backends/backend.js";
import { Decoder } from "../../src/decoder/decoder.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { backends } from "../../src/entry/backends.js";
import { buildModel, initializer, type ModelParts, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64, tokenFeeds, tokens } from "../support/decoding.js";

let lookups = 0;

/** The same backend, which counts how often it is asked for a program. */
const counting = (choice: BackendChoice): BackendChoice => ({
  name: choice.name,
  async load() {
    const backend = await choice.load();
    return {
      name: choice.name,
      async open(options) {
        const opened = await backend.open(options);
        const prepare = opened.prepare.bind(opened);
        opened.prepare = (plan) => {
          const executable = prepare(plan);
          const programFor = executable.programFor.bind(executable);
          executable.programFor = (inputs) => {
            lookups++;
            return programFor(inputs);
          };
          return executable;
        };
        return opened;
      },
    };
  },
});

const sessions: Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.release();
});

class CountedSession extends Session {
  static async create(bytes: Uint8Array, options: SessionOptions = {}): Promise<CountedSession> {
    const session = new CountedSession(
      await Session.prepare(bytes, nodePlatform, backends.map(counting), { threads: 1, ...options }),
    );
    sessions.push(session);
    return session;
  }
}

/** What a run gives, and how many programs it asked for. */
async function counted<T>(run: () => Promise<T>): Promise<{ readonly result: T; readonly asked: number }> {
  const before = lookups;
  const result = await run();
  return { result, asked: lookups - before };
}

const open = (parts: Omit<ModelParts, "opset">): Promise<CountedSession> =>
  CountedSession.create(writeModel(buildModel({ opset: 24, ...parts })));

describe.each(["reference", "wasm"] as const)("on %s", (backend) => {
  test.each([[[]], [["write_indices"]], [["nonpad_kv_seqlen"]], [["write_indices", "nonpad_kv_seqlen"]]])(
    "each token asks for one program with %j fed",
    async (fed) => {
      const session = await CountedSession.create(writeModel(generatedDecoder(smallSizes)), { backend });
      const dims = { batch: 2, capacity: 16 };
      const [state, wholly] = [session.createState({ dims }), session.createState({ dims })];
      let length = 0;
      for (const count of [5, 1, 1, 3, 1]) {
        const rows = [tokens(length, length + count), tokens(length + 7, length + 7 + count)];
        const given = tokenFeeds(rows, [length, length]);
        const lengths = {
          write_indices: int64([length, length]),
          nonpad_kv_seqlen: int64([length + count, length + count]),
        };
        const left = Object.fromEntries(Object.entries(lengths).filter(([name]) => fed.includes(name)));
        const { result, asked } = await counted(() => session.run({ ...given, ...left }, { state }));
        expect(asked).toBe(1);
        const { logits } = await session.run({ ...given, ...lengths }, { state: wholly });
        expect(result["logits"].data).toEqual(logits.data);
        length += count;
        expect(state.lengths).toEqual([length, length]);
      }
      for (const name of state.names) expect(state.get(name).data).toEqual(wholly.get(name).data);
    },
  );
});

test("exported decoders ask for one program a token", async () => {
  const archive = fileURLToPath(new URL("../models/decoders.tar.br", import.meta.url));
  const files = [...(readArchive(archive) as Map<string, Uint8Array>)].filter(([path]) => path.endsWith(".onnx"));
  expect(files.length).toBeGreaterThan(5);
  for (const [path, bytes] of files)
    for (const rewrite of ["auto", "never"] as const) {
      // As its file has it, it counts rows by an input of its own.
      if (rewrite === "never" && path.startsWith("llama_static")) continue;
      const session = await CountedSession.create(bytes, { rewrite });
      const decoder = new Decoder(session);
      const state = decoder.createState(1, 16);
      for (const [position, count] of [
        [0, 4],
        [4, 1],
        [5, 1],
      ] as const) {
        const step = { tokens: [tokens(position, position + count)], positions: [position] };
        const { asked } = await counted(() => decoder.run(state, step));
        expect(asked, `${path}, rewrite: ${rewrite}, ${count} tokens`).toBe(1);
        expect(state.lengths).toEqual([position + count]);
      }
    }
});

/** A cache whose new rows are written at `start`, and of which a query sees `end`; `rows` says where the new ones come from. */
const cache = (
  inputs: readonly ReturnType<typeof value>[],
  rows: readonly ReturnType<typeof node>[],
): Omit<ModelParts, "opset"> => ({
  inputs: [value("past", "float32", [1, 8, 2]), value("start", "int64", [1]), value("end", "int64", [1]), ...inputs],
  outputs: [value("present", "float32"), value("seen", "float32"), value("valid", "float32")],
  nodes: [
    ...rows,
    node("TensorScatter", ["past", "rows", "start"], ["present"], { axis: 1 }),
    node("Unsqueeze", ["present", "one"], ["heads"]),
    node("Attention", ["heads", "heads", "heads", "", "", "", "end"], ["seen"]),
    // Its shape is what the length says.
    node("Slice", ["present", "zero", "end", "one"], ["valid"]),
  ],
  initializers: [initializer("zero", "int64", [0n], [1]), initializer("one", "int64", [1n], [1])],
});

/** Runs with lengths left out beside runs with lengths fed; the number of programs that each of the first asked for. */
async function compareRuns(
  session: Session,
  counts: readonly number[],
  feedsOf: (count: number, length: number) => Record<string, Tensor>,
): Promise<number[]> {
  const [state, fed] = [session.createState(), session.createState()];
  const all: number[] = [];
  let length = 0;
  for (const count of counts) {
    const given = feedsOf(count, length);
    const { result, asked } = await counted(() => session.run(given, { state }));
    const lengths = { start: int64([length]), end: int64([length + count]) };
    const wanted = await session.run({ ...given, ...lengths }, { state: fed });
    length += count;
    expect(result["valid"].dims).toEqual([1, length, 2]);
    for (const name of ["seen", "valid"]) expect(result[name].data).toEqual(wanted[name].data);
    expect(state.get("past").data).toEqual(fed.get("past").data);
    expect(state.lengths).toEqual([length]);
    all.push(asked);
  }
  return all;
}

const floats = (rows: number, from: number): Tensor =>
  new Tensor(
    "float32",
    Float32Array.from({ length: 2 * rows }, (_, at) => from + at / 8),
    [1, rows, 2],
  );

test("lengths that decide shapes ask for one program, and get the one for the length after the run", async () => {
  const session = await open(cache([value("rows", "float32", [1, "new", 2])], []));
  expect(await compareRuns(session, [3, 1, 2, 1], (count, length) => ({ rows: floats(count, length) }))).toEqual([
    1, 1, 1, 1,
  ]);
});

test("rows whose number only data decide are counted by a program, and right", async () => {
  const inputs = [value("all", "float32", [1, 4, 2]), value("count", "int64", [1])];
  const session = await open(cache(inputs, [node("Slice", ["all", "zero", "count", "one"], ["rows"])]));
  const asked = await compareRuns(session, [3, 1, 2, 1], (count, length) => ({
    all: floats(4, length),
    count: int64([count]),
  }));
  expect(asked).toEqual([2, 2, 2, 2]);
});

test("a fork that takes its reserve along while feeds are read leaves this state its own", async () => {
  const session = await open(cache([value("rows", "float32", [1, "new", 2])], []));
  const state = session.createState();
  await session.run({ rows: floats(2, 1) }, { state });
  const fork = state.fork();
  // Callers have the array of the fork: it keeps the memory, and the state takes a copy, before its own run writes.
  const array = fork.get("past").data as Float32Array;
  const before = [...array];
  const feeds = {
    get rows(): Tensor {
      fork.set("past", new Tensor("float32", new Float32Array(16).fill(9), [1, 8, 2]));
      return floats(1, 5);
    },
  };
  const { valid } = await session.run(feeds, { state });
  expect([...(valid.data as Float32Array)]).toEqual([...before.slice(0, 4), 5, 5.125]);
  expect([...(state.get("past").data as Float32Array)]).toEqual([...before.slice(0, 4), 5, 5.125, ...before.slice(6)]);
  expect([...array]).toEqual(new Array(16).fill(9));
  expect(state.lengths).toEqual([3]);
});
