/**
 * The load `scatter`: new rows written into a KV cache. First one token into a large cache, by insitu and by its peers; then the
 * question whether TensorScatter gains anything over the operators that were there before it.
 */
import { InferenceSession } from "#insitu/entry/node.js";
import { writeModel } from "#insitu/onnx/write.js";
import { bytesText } from "#insitu/base/bytes-text.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import {
  type Contestant,
  differentBits,
  type Group,
  type Load,
  type Result,
  type Running,
  type Setting,
} from "./load.js";
import { profileOf } from "./ort-profile.js";
import type { OrtSession, OrtTensor, OrtTensors, Peer } from "./peers.js";
import { type Feed, type Form, forms, pastFeed, type ScatterSizes, updateFeed, writtenCache } from "./scatter-forms.js";

/** How the result comes about: the feeds stay as they are, or the cache is written where it lies. */
type Mode = "copied" | "in place";

const full: ScatterSizes = { batch: 4, heads: 8, capacity: 4096, head: 128, tokens: 1 };
const tiny: ScatterSizes = { batch: 2, heads: 2, capacity: 32, head: 8, tokens: 1 };

const cacheBytes = ({ batch, heads, capacity, head }: ScatterSizes): number => batch * heads * capacity * head * 4;
const rowBytes = (sizes: ScatterSizes): number => cacheBytes({ ...sizes, capacity: sizes.tokens });

/** Where all contestants write when they are compared: the last rows, where Concat has to put them. */
const checkedStart = ({ capacity, tokens }: ScatterSizes): number => capacity - tokens;

/** Positions that timed runs go round through, one behind the other as in a conversation; indices are made beforehand. */
const mostPositions = 64;

function positionsOf({ capacity, tokens }: ScatterSizes): number[] {
  const count = Math.min(mostPositions, Math.floor(capacity / tokens));
  return Array.from({ length: count }, (_, at) => at * tokens);
}

/** Feeds of one runtime for every position in turn. */
class Rounds<T> {
  readonly #feeds: readonly Readonly<Record<string, T>>[];
  #at = 0;

  constructor(form: Form, sizes: ScatterSizes, make: (feed: Feed) => T) {
    const update = make(updateFeed(sizes));
    this.#feeds = positionsOf(sizes).map((start) => ({ update, ...made(form.indices(sizes, start), make) }));
  }

  next(): Readonly<Record<string, T>> {
    this.#at = (this.#at + 1) % this.#feeds.length;
    return this.#feeds[this.#at];
  }
}

const made = <T>(feeds: Readonly<Record<string, Feed>>, make: (feed: Feed) => T): Record<string, T> =>
  Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, make(feed)]));

const tensorOf = ({ type, data, dims }: Feed): Tensor => new Tensor(type, data, dims);

/** insitu: with a state that owns the cache, or functionally, past fed and present fetched. */
async function startInsitu(
  form: Form,
  sizes: ScatterSizes,
  mode: Mode,
  { backend, threads }: Setting,
): Promise<Running> {
  const session = await InferenceSession.create(writeModel(form.model(sizes)), {
    inPlace: mode === "in place" ? "require" : "never",
    threads,
    ...(backend === undefined ? {} : { backend }),
  });
  const past = tensorOf(pastFeed(form, sizes));
  const rounds = new Rounds(form, sizes, tensorOf);
  const checked = { update: tensorOf(updateFeed(sizes)), ...made(form.indices(sizes, checkedStart(sizes)), tensorOf) };
  const stop = (): Promise<void> => session.release();
  if (mode === "in place") {
    const state = session.createState();
    state.set("past", past);
    return {
      run: async () => void (await session.run(rounds.next(), { state })),
      async result() {
        await session.run(checked, { state });
        return state.get("past").data as Float32Array;
      },
      stop,
    };
  }
  return {
    run: async () => void (await session.run({ past, ...rounds.next() })),
    result: async () => (await session.run({ past, ...checked })).present.data as Float32Array,
    stop,
  };
}

/** onnxruntime: past fed and present fetched, or one tensor bound as both. */
async function startPeer(form: Form, sizes: ScatterSizes, mode: Mode, peer: Peer): Promise<Running> {
  const model = writeModel(form.model(sizes));
  const session = await peer.session(model);
  const tensor = ({ type, data, dims }: Feed): OrtTensor => peer.tensor(type, data, dims);
  const past = tensor(pastFeed(form, sizes));
  const rounds = new Rounds(form, sizes, tensor);
  const checked = { update: tensor(updateFeed(sizes)), ...made(form.indices(sizes, checkedStart(sizes)), tensor) };
  const once = async (on: OrtSession, feeds: OrtTensors): Promise<OrtTensor> => {
    const all = { past, ...feeds };
    return (await (mode === "in place" ? on.run(all, { present: past }) : on.run(all)))["present"];
  };
  return {
    run: async () => void (await once(session, rounds.next())),
    result: async () => (await once(session, checked)).data,
    ...(peer.profiles ? { profile: () => profileOf(peer, model, (on) => once(on, rounds.next())) } : {}),
    stop: () => session.release(),
  };
}

const costs = (form: Form, sizes: ScatterSizes, mode: Mode): Contestant["costs"] => ({
  indexBytes: form.indexBytes(sizes),
  writtenBytes: mode === "in place" ? rowBytes(sizes) : cacheBytes(sizes) + (form.appends ? 0 : rowBytes(sizes)),
});

const byInsitu = (name: string, form: Form, sizes: ScatterSizes, mode: Mode, setting: Setting): Contestant => ({
  name,
  runtime: "insitu",
  costs: costs(form, sizes, mode),
  start: () => startInsitu(form, sizes, mode, setting),
});

const byPeer = (name: string, form: Form, sizes: ScatterSizes, mode: Mode, peer: Peer): Contestant => ({
  name,
  runtime: peer.name,
  costs: costs(form, sizes, mode),
  start: () => startPeer(form, sizes, mode, peer),
});

/** Compares every result with the cache that plain loops write; `sizesOf` tells whose cache has other sizes. */
function checkCaches(sizesOf: (contestant: string) => ScatterSizes): Group["check"] {
  return (results: ReadonlyMap<string, Result>) => {
    const expected = new Map<ScatterSizes, Float32Array>();
    const problems = new Map<string, string>();
    for (const [name, result] of results) {
      const sizes = sizesOf(name);
      const cache = expected.get(sizes) ?? writtenCache(sizes, checkedStart(sizes));
      expected.set(sizes, cache);
      const problem = differentBits(result, cache);
      if (problem !== undefined) problems.set(name, `the cache ${problem}`);
    }
    return problems;
  };
}

const cacheText = ({ batch, heads, capacity, head, ...rest }: ScatterSizes): string =>
  `${bytesText(cacheBytes({ batch, heads, capacity, head, ...rest }))} cache, float32 [${batch},${heads},${capacity},${head}]`;

/** One token into a large cache: everyone, each in the ways it offers. */
function oneToken(setting: Setting): Group {
  const large = setting.quick ? tiny : full;
  const small = { ...large, capacity: Math.max(8, large.capacity / 64) };
  const [tensorScatter] = forms;
  const smallName = `insitu, in place, ${bytesText(cacheBytes(small))} cache`;
  return {
    name: `one token into a ${cacheText(large)}`,
    contestants: [
      byInsitu("insitu, in place", tensorScatter, large, "in place", setting),
      byInsitu(smallName, tensorScatter, small, "in place", setting),
      byInsitu("insitu, copied", tensorScatter, large, "copied", setting),
      ...setting.peers.flatMap((peer) => [
        byPeer(`${peer.name}, past fed, present fetched`, tensorScatter, large, "copied", peer),
        byPeer(`${peer.name}, one tensor bound as both`, tensorScatter, large, "in place", peer),
      ]),
    ],
    check: checkCaches((name) => (name === smallName ? small : large)),
  };
}

/** All forms of one write, in one runtime and one mode. */
function allForms(setting: Setting, tokens: number, mode: Mode, peer?: Peer): Group {
  const sizes = { ...(setting.quick ? tiny : full), tokens };
  const possible = forms.filter((form) => mode === "copied" || !form.appends);
  return {
    name: `${tokens === 1 ? "one token" : `${tokens} tokens`}, ${mode}, ${peer?.name ?? "insitu"}`,
    contestants: possible.map((form) =>
      peer === undefined ? byInsitu(form.name, form, sizes, mode, setting) : byPeer(form.name, form, sizes, mode, peer),
    ),
    check: checkCaches(() => sizes),
  };
}

/** The load. */
export const scatter: Load = {
  name: "scatter",
  description: "new rows into a KV cache: in place and copied, TensorScatter and the operators before it",
  groups(setting) {
    const prefill = setting.quick ? 8 : 512;
    const native = setting.peers.filter(({ name }) => name === "onnxruntime-node");
    const runtimes: (Peer | undefined)[] = [undefined, ...native];
    return [
      oneToken(setting),
      ...runtimes.flatMap((peer) =>
        [1, prefill].flatMap((tokens) =>
          (["in place", "copied"] as const).map((mode) => allForms(setting, tokens, mode, peer)),
        ),
      ),
    ];
  },
};
