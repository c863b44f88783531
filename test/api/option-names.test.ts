// Names of options that nobody knows are refused at every door: the doors are found in the declarations that the build makes, and each is tried.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkOptionNames } from "../../src/base/option-names.js";
import { BlockPool } from "../../src/cache/block-pool.js";
import { EvictingState } from "../../packages/eviction/evicting-state.js";
import { heavyHitters, recentWindow } from "../../src/cache/eviction.js";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { PerHeadState } from "../../packages/eviction/per-head-state.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { EmbeddingModel } from "../../src/entry/embedding-node.js";
import { CausalLM, InferenceSession, rewrite } from "../../src/entry/node.js";
import { ops } from "../../packages/functions/ops.js";
import type { Chat } from "../../src/generate/chat.js";
import { writeModel } from "../../src/onnx/write.js";
import { createServer } from "../../packages/serve/server.js";
import { Tensor } from "../../src/tensor/tensor.js";
import * as worker from "../../packages/worker/node.js";
import { writeEncoder } from "../generate/embedding-folders.js";
import { hubFolder } from "../generate/support.js";
import { exportedBytes } from "../support/exported-decoders.js";

const dist = fileURLToPath(new URL("../../dist", import.meta.url));

/** The file of declarations that one file names. */
const declarations = (file: string, from: string): string =>
  (from.startsWith("#") ? from.replace("#insitu/", "") : join(dirname(file), from)).replace(/\.js$/, ".d.ts");

/** The declarations of a file, by name, with where what it imports is. */
function read(file: string): { readonly text: string; readonly places: ReadonlyMap<string, string> } {
  const text = readFileSync(join(dist, file), "utf8");
  const places = new Map<string, string>();
  for (const [, names, from] of text.matchAll(
    /(?:import|export)(?: type)? \{([^}]*)\} from "((?:\.|#insitu\/)[^"]*)"/g,
  ))
    for (const name of names.split(",")) {
      const [own, as = own] = name
        .replace(/\btype\b/, "")
        .trim()
        .split(/ as /);
      if (own !== "") places.set(as, `${declarations(file, from)}#${own}`);
    }
  return { text, places };
}

/** Every name that an entry exports, with the file that declares it. */
function exported(entry: string): readonly string[] {
  const { text, places } = read(entry);
  const stars = [...text.matchAll(/export \* from "((?:\.|#insitu\/)[^"]*)"/g)].flatMap(([, from]) =>
    exported(declarations(entry, from)),
  );
  const named = [...text.matchAll(/export(?: type)? \{([^}]*)\} from/g)].flatMap(([, names]) =>
    names.split(",").flatMap(
      (name) =>
        places.get(
          name
            .replace(/\btype\b/, "")
            .trim()
            .split(" as ")
            .at(-1)!,
        ) ?? [],
    ),
  );
  const own = [...text.matchAll(/export declare (?:class|function|const) (\w+)/g)].map(
    ([, name]) => `${entry}#${name}`,
  );
  return [...stars, ...named, ...own];
}

/** The functions and members that take options, of what is declared there: `Class.member`, `Class` for its constructor, `function`. */
function doorsOf(place: string): readonly string[] {
  const [file, name] = place.split("#");
  const { text, places } = read(file);
  const takes = /[(,] ?(?:options|given|change)\??:/;
  const declared = new RegExp(`export declare (class|function|const) ${name}\\b(.*?)(?=\\nexport |$)`, "s").exec(text);
  if (declared === null) return places.has(name) ? doorsOf(places.get(name)!) : [];
  const [, kind, rest] = declared;
  if (kind === "function") return takes.test(rest.split("): ")[0]) ? [name] : [];
  const body = rest.replace(/\/\*\*.*?\*\//gs, "");
  if (kind === "const")
    return [...body.matchAll(/readonly (\w+): typeof (\w+)/g)].flatMap(([, member, of]) => {
      const found = doorsOf(places.get(of) ?? `${file}#${of}`);
      return found.length > 0 || takesOptions(text, of) ? [`${name}.${member}`] : [];
    });
  const base = /^(?:<[^>]*>)? extends (\w+)/.exec(body)?.[1];
  const inherited = base === undefined ? [] : doorsOf(places.get(base) ?? `${file}#${base}`);
  const own = [...body.matchAll(/^ {4}(?:static )?(\w+)(?:<[^>]*>)?\(([^\n]*)/gm)].flatMap(([, member, parameters]) =>
    takes.test(`(${parameters}`) ? [member === "constructor" ? name : `${name}.${member}`] : [],
  );
  return [...new Set([...inherited, ...own])];
}

const takesOptions = (text: string, name: string): boolean =>
  new RegExp(`declare function ${name}\\([^)]*[(,] ?(?:options|given|change)\\??:`).test(text);

let lm: CausalLM;
let remote: worker.CausalLM;
let [session, paged, perHead]: (InferenceSession | undefined)[] = [];
let remoteSession: worker.InferenceSession;
let chat: Chat;
let embedder: EmbeddingModel;
let remoteEmbedder: worker.EmbeddingModel;
const encoder = mkdtempSync(join(tmpdir(), "insitu-names-"));
const folder = hubFolder("llama_op24");
const decoder = writeModel(generatedDecoder(smallSizes));

beforeAll(async () => {
  lm = await CausalLM.load(folder.path, { backend: "reference" });
  chat = lm.chat();
  embedder = await EmbeddingModel.load(writeEncoder(encoder, "mean_tokens"), { backend: "reference" });
  session = await InferenceSession.create(decoder, { backend: "reference" });
  paged = await InferenceSession.create(exportedBytes("llama_op24"), { backend: "reference", change: pages() });
  perHead = await InferenceSession.create(exportedBytes("llama_op24"), {
    backend: "reference",
    change: pages({ perHead: true }),
  });
  remoteEmbedder = await worker.EmbeddingModel.load(encoder, { threads: 1 });
  remote = await worker.CausalLM.load(folder.path, { threads: 1 });
  remoteSession = await worker.InferenceSession.create(decoder, { threads: 1 });
});
afterAll(async () => {
  for (const each of [lm, session, paged, perHead, remote, remoteSession, embedder, remoteEmbedder])
    await each?.release();
  rmSync(encoder, { recursive: true });
  folder.remove();
});

const floats = new Tensor("float32", new Float32Array(8), [1, 1, 2, 4]);
const slots = new Tensor("int64", [0n], [1]);

/** How each door is called with options. */
const doors: Readonly<Record<string, (options: object) => unknown>> = {
  "CausalLM.load": (options) => CausalLM.load(folder.path, options),
  "LanguageModel.generate": (options) => lm.generate("One", options),
  "LanguageModel.generateObject": (options) => lm.generateObject({ type: "integer" }, "One", options),
  "LanguageModel.streamObject": (options) => lm.streamObject({ type: "integer" }, "One", options),
  "EmbeddingModel.load": (options) => EmbeddingModel.load(folder.path, options),
  "TextEmbedder.embed": (options) => embedder.embed("One", options),
  "TextEmbedder.embedCounted": (options) => embedder.embedCounted("One", options),
  "TextEmbedder.rank": (options) => embedder.rank("One", ["Two"], options),
  "LanguageModel.generateBatch": (options) => lm.generateBatch(["One"], options),
  "LanguageModel.samples": (options) => lm.samples("One", 2, options),
  "LanguageModel.beamSearch": (options) => lm.beamSearch("One", options),
  "LanguageModel.chat": (options) => lm.chat([], options),
  "LanguageModel.reply": (options) => lm.reply([{ role: "user", content: "One" }], options),
  "Chat.send": (options) => chat.send("One", options),
  "TextTokenizer.encode": (options) => lm.tokenizer.encode("One", options),
  "TextTokenizer.encodeSteps": (options) => lm.tokenizer.encodeSteps("One", options),
  "TextTokenizer.encodeChat": (options) => lm.tokenizer.encodeChat([], {}, options),
  "InferenceSession.create": (options) => InferenceSession.create(decoder, options),
  "Session.run": (options) => session!.run({}, ["logits"], options),
  "Session.start": (options) => session!.start({}, undefined, options),
  "Session.startSeries": (options) => session!.startSeries({}, [], ["logits"], options),
  "Session.createState": (options) => session!.createState({ dims: { batch: 1, capacity: 8 }, ...options }),
  "Session.explain": (options) => session!.explain({ json: true, ...options }),
  rewrite: (options) => rewrite(decoder, options),
  pages: (options) => pages(options),
  recentWindow: (options) => recentWindow(options),
  heavyHitters: (options) => heavyHitters(options),
  BlockPool: (options) => new BlockPool({ blocks: 2, blockSize: 2, ...options }),
  PagedState: (options) => new PagedState(paged!, { blocks: 2, ...options }),
  "PagedState.evict": (options) => {
    const state = new PagedState(paged!, { blocks: 2 });
    return state.evict(state.pool.add(), recentWindow(), { budget: 1, ...options });
  },
  PerHeadState: (options) => new PerHeadState(perHead!, { blocks: 8, ...options }),
  EvictingState: (options) => new EvictingState(session!, { capacity: 8, policy: recentWindow(), ...options }),
  "ops.tensorScatter": (options) => ops.tensorScatter({ pastCache: floats, update: floats }, options),
  "ops.attention": (options) => ops.attention({ q: floats, k: floats, v: floats }, options as Record<string, number>),
  "ops.scatterPaKvCache": (options) =>
    ops.scatterPaKvCache({ key: floats, keyCache: floats, slotMapping: slots }, options),
  "ops.gatherPaKvCache": (options) =>
    ops.gatherPaKvCache({ keyCache: floats, blockTables: slots, seqLens: slots }, options),
  "ops.pagedAttention": (options) =>
    ops.pagedAttention(
      { query: floats, keyCache: floats, valueCache: floats, blockTables: slots, seqLens: slots },
      options,
    ),
  "ops.quantizedScatterPaKvCache": (options) =>
    ops.quantizedScatterPaKvCache(
      {
        key: floats,
        value: floats,
        keyCache: floats,
        keyScale: floats,
        valueCache: floats,
        valueScale: floats,
        slotMapping: slots,
      },
      options,
    ),
  "ops.repackCache": (options) => ops.repackCache({ cache: floats, rows: slots }, options),
  "ops.slotMapping": (options) =>
    ops.slotMapping({ blockTables: slots, positions: slots }, { blockSize: 2, ...options }),
  "ops.convertPagedLayout": (options) => ops.convertPagedLayout(floats, { from: "Norm", to: "NHSD", ...options }),
  createServer: (options) => createServer(lm, options),
  "worker CausalLM.load": (options) => worker.CausalLM.load(folder.path, options),
  "worker EmbeddingModel.load": (options) => worker.EmbeddingModel.load(encoder, options),
  "worker RemoteEmbedder.embed": (options) => remoteEmbedder.embed("w5", options),
  "worker RemoteEmbedder.rank": (options) => remoteEmbedder.rank("w5", ["w6"], options),
  "worker InferenceSession.create": (options) => worker.InferenceSession.create(decoder, options),
  "worker RemoteModel.generate": (options) => remote.generate("One", options),
  "worker RemoteModel.generateObject": (options) => remote.generateObject({ type: "integer" }, "One", options),
  "worker RemoteModel.streamObject": (options) => remote.streamObject({ type: "integer" }, "One", options),
  "worker RemoteModel.reply": (options) => remote.reply([{ role: "user", content: "One" }], options),
  "worker RemoteModel.generateBatch": (options) => remote.generateBatch(["One"], options),
  "worker RemoteModel.samples": (options) => remote.samples("One", 1, options),
  "worker RemoteModel.beamSearch": (options) => remote.beamSearch("One", options),
  "worker RemoteModel.explain": (options) => remote.explain(options as { json: true }),
  "worker RemoteTokenizer.encode": (options) => remote.tokenizer.encode("One", options),
  "worker RemoteTokenizer.encodeChat": (options) => remote.tokenizer.encodeChat([], {}, options),
  "worker RemoteSession.explain": (options) => remoteSession.explain(options as { json: true }),
  "worker RemoteModel.chat": (options) => remote.chat([], options),
  "worker RemoteModel.encode": (options) => remote.encode("One", options),
  "worker RemoteChat.send": (options) => remote.chat().send("One", options),
  "worker RemoteSession.run": (options) => remoteSession.run({}, ["logits"], options),
  "worker RemoteSession.createState": (options) =>
    remoteSession.createState({ dims: { batch: 1, capacity: 8 }, ...options }),
};

/** Doors whose options are not what this is about. */
const others: Readonly<Record<string, string>> = {
  Chat: "made by LanguageModel.chat",
  "Chat.open": "for language models",
  "worker RemoteChat.open": "for models",
  "worker RemoteGeneration.begin": "for models",
  Generation: "made by LanguageModel.generate",
  "State.set": "a tensor is given",
  "worker RemoteChat": "made by RemoteModel.chat",
  "worker RemoteGeneration": "made by RemoteModel.generate",
  InsituError: "the cause of an error, for whoever makes one",
  "Tensor.toDataURL": "onnxruntime's, refused whatever it is given",
  "Tensor.toImageData": "onnxruntime's, refused whatever it is given",
};

test("every door of the declarations is tried here", () => {
  const found = ["index.node.d.ts", "serve/server.d.ts"].flatMap((entry) => exported(entry).flatMap(doorsOf));
  const threads = ["worker.node.d.ts"].flatMap((entry) => exported(entry).flatMap(doorsOf));
  const all = new Set([
    ...found,
    ...threads.filter((door) => !found.includes(door) || !(door in others)).map((door) => `worker ${door}`),
  ]);
  expect([...all].filter((door) => !(door in others)).toSorted()).toEqual(Object.keys(doors).toSorted());
});

test.each(Object.keys(doors))("%s", async (door) => {
  const call = async (options: object): Promise<unknown> => {
    const made = await doors[door](options);
    return made;
  };
  await expect(call({ nonsense_option: 1 })).rejects.toMatchObject({
    message: expect.stringContaining('"nonsense_option"') as unknown,
    code: expect.stringMatching(/^invalid-(argument|graph)$/) as unknown,
  });
});

describe("what was meant", () => {
  const meant = (name: string, ...known: string[]): string => {
    try {
      checkOptionNames("these", { [name]: 1 }, Object.fromEntries(known.map((each) => [each, true as const])));
    } catch (error) {
      return (error as Error).message;
    }
    return "taken";
  };
  const text = ["temperature", "topK", "maxTokens", "stop", "seed", "jsonSchema"];
  const load = ["backend", "variant", "context", "threads", "onProgress", "keep"];
  test.each([
    ["max_tokens", text, "maxTokens"],
    ["max_new_tokens", text, "maxTokens"],
    ["maxNewTokens", text, "maxTokens"],
    ["maxToken", text, "maxTokens"],
    ["do_sample", text, "temperature (0 takes the likeliest token)"],
    ["top_k", text, "topK"],
    ["TopK", text, "topK"],
    ["tmeperature", text, "temperature"],
    ["stop_sequences", text, "stop"],
    ["response_format", text, "jsonSchema"],
    ["device", load, "backend"],
    ["dtype", load, "variant"],
    ["n_ctx", load, "context"],
    ["num_threads", load, "threads"],
    ["progress_callback", load, "onProgress"],
  ])("%s", (name, known, wanted) => {
    expect(meant(name, ...known)).toBe(`these: "${name}" is no option; did you mean ${wanted}?`);
  });

  test("nothing: those that there are are told, and what is undefined asks for nothing", () => {
    expect(meant("zebra", "topK", "seed")).toBe('these: "zebra" is no option; there are topK, seed');
    expect(meant("__proto__x", "topK")).toMatch(/is no option/);
    expect(() => checkOptionNames("these", { zebra: undefined }, { topK: true })).not.toThrow();
    expect(() => lm.generate("One", { max_tokens: undefined, maxTokens: 0 } as object)).not.toThrow();
    expect(() => lm.generate("One", { max_tokens: null } as object)).not.toThrow();
  });

  test("parts of options have their names too", async () => {
    const wrong: [() => unknown, string][] = [
      [() => lm.generate("One", { speculate: { ngrams: 3 } as object }), "ngram"],
      [() => CausalLM.load(folder.path, { hub: { token: "x" } as object }), "accessToken"],
      [() => createServer(lm, { limits: { body_bytes: 1 } as object }), "bodyBytes"],
      [() => InferenceSession.create(decoder, { wasm: { memory: 1 } as object }), "memoryBytes"],
    ];
    for (const [call, wanted] of wrong)
      await expect((async () => call())()).rejects.toThrow(
        new RegExp(
          `^option [\\w.]+ is not known; did you mean ${wanted}\\?$|^the options of hub: .* mean ${wanted}\\?$`,
        ),
      );
  });
});

test("programs for onnxruntime may say what it lets be; whoever uses a word of insitu's may not", async () => {
  const own = { executionProviders: ["cpu"], logSeverityLevel: 3, somethingNew: true } as object;
  const theirs = await InferenceSession.create(decoder, own);
  await expect(theirs.run({}, ["logits"], { tag: "x", somethingNew: 1 } as object)).rejects.toThrow(/is missing/);
  await theirs.release();
  await expect(InferenceSession.create(decoder, { ...own, backend: "wasm" })).rejects.toThrow(
    /"somethingNew" is no option/,
  );
  await expect(InferenceSession.create(decoder, { device: "webgpu" } as object)).rejects.toThrow(
    /did you mean backend\?$/,
  );
});
