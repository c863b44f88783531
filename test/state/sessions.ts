// The sessions of one random model: those under test, the oracle, and onnxruntime where it is asked. The oracle is the reference on the
// graph as the file has it, nothing in place, without a state.
import { InsituError } from "../../src/base/error.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { handOver, openPeer, type PeerSession, takeBack } from "../rewrite/peer.js";
import type { Chance } from "./chance.js";
import { equal, same, type Tensors } from "./compare.js";
import type { Counts } from "./counts.js";
import { sameDims } from "./draft.js";
import type { RandomModel } from "./random-model.js";

/** Backends and policies, and how many of the models each is tried on. */
const lineup = [
  ["wasm", "prefer", 1],
  ["wasm", "never", 0.5],
  ["wasm", "require", 0.4],
  ["reference", "prefer", 0.5],
  ["reference", "never", 0.3],
  ["reference", "require", 0.2],
] as const;

/** Given, so that no session asks the machine. */
const memoryLimit = 2 ** 30;

type Names = Record<string, string>;

/** A session under test. */
export interface Variant {
  readonly label: string;
  readonly session: InferenceSession;
  /** The pairs to name when states are created, where the session was not told. */
  readonly naming: { readonly pairs?: Names };
}

export interface SessionsOptions {
  /** Also ask onnxruntime. */
  readonly peer: boolean;
  /** Threads of one more WASM session, where there is to be one. */
  readonly threads: number | undefined;
}

export class Sessions {
  readonly variants: Variant[] = [];
  /** What a state holds: present by past. */
  pairs = new Map<string, string>();
  readonly #random: RandomModel;
  readonly #chance: Chance;
  readonly #counts: Counts;
  readonly #bytes: Uint8Array;
  #oracle: InferenceSession | undefined;
  #peer: PeerSession | undefined;

  constructor(random: RandomModel, chance: Chance, counts: Counts) {
    this.#random = random;
    this.#chance = chance;
    this.#counts = counts;
    this.#bytes = writeModel(random.model);
  }

  /** Opens all of them; the pairs that were named, by chance. */
  async open({ peer, threads }: SessionsOptions): Promise<Names> {
    const names = this.#chance.of(0.3) ? this.#choosePairs() : {};
    const graphOptimizationLevel = this.#chance.of(0.25) ? "disabled" : "all";
    this.#oracle = await InferenceSession.create(this.#bytes, {
      backend: "reference",
      inPlace: "never",
      graphOptimizationLevel: "disabled",
      pairs: names,
      memoryLimit,
    });
    const { states } = this.#oracle.explain({ json: true });
    this.pairs = new Map(states.map(({ input, output }) => [input, output]));
    for (const [past, present] of Object.entries(names)) same(`the present of ${past}`, this.pairs.get(past), present);
    for (const [backend, inPlace, share] of lineup) {
      if (!this.#chance.of(share)) continue;
      const options = { backend, threads: 1, inPlace, graphOptimizationLevel } as const;
      await this.#add(`${backend} ${inPlace} ${graphOptimizationLevel}`, options, names);
    }
    if (threads !== undefined)
      await this.#add(`wasm prefer, ${threads} threads`, { backend: "wasm", threads, graphOptimizationLevel }, names);
    this.#counts.graphs++;
    if (Object.keys(names).length > 0) this.#counts.named++;
    if (peer) await this.#openPeer();
    return names;
  }

  /** Any output that has an input's type and shape can be its next content. */
  #choosePairs(): Names {
    const names: Names = {};
    for (const cache of this.#random.caches) {
      const alike = this.#random.outputs.filter(
        ({ name, type, dims, approximate }) =>
          !approximate &&
          !Object.values(names).includes(name) &&
          type === cache.type &&
          cache.grows === undefined &&
          sameDims(dims, cache.dims),
      );
      if (alike.length > 0 && this.#chance.of(0.7)) names[cache.name] = this.#chance.oneOf(alike).name;
    }
    return names;
  }

  async #add(label: string, options: SessionOptions, names: Names): Promise<void> {
    const first = this.variants.length === 0;
    const early = first || this.#chance.of(0.5);
    const naming = early ? {} : { pairs: names };
    let session: InferenceSession | undefined;
    try {
      const told = early ? { pairs: names } : {};
      session = await InferenceSession.create(this.#bytes, { ...options, ...told, memoryLimit });
      if (first) this.#lookAt(session);
      if (this.pairs.size > 0) session.createState({ shapes: this.shapes(1), ...naming }).release();
      this.variants.push({ label, session, naming });
    } catch (error) {
      await session?.release();
      const refused = options.inPlace === "require" && error instanceof InsituError && error.code === "not-in-place";
      if (!refused) throw error;
      this.#counts.requireRefused++;
      return;
    }
    if (options.inPlace === "require") this.#counts.required++;
  }

  /** Takes the pairs from a session after its passes: they may reveal a pair where the file has none, but change none that it has. */
  #lookAt(session: InferenceSession): void {
    const { states, caches } = session.explain({ json: true });
    const all = new Map(states.map(({ input, output }) => [input, output]));
    for (const [past, present] of this.pairs) same(`the present of ${past}, after passes`, all.get(past), present);
    this.pairs = all;
    for (const { inPlace } of caches) this.#counts[inPlace ? "inPlace" : "copied"]++;
  }

  /** Shapes of what a state holds, with so many rows in reserve for those that grow. */
  shapes(reserve: number): Record<string, number[]> {
    const held = this.#random.caches.filter(({ name }) => this.pairs.has(name));
    return Object.fromEntries(
      held.map(({ name, dims, grows }) => [name, dims.map((dim, axis) => (axis === grows ? reserve : Number(dim)))]),
    );
  }

  /** What the model means: every output, from inputs that are all fed. */
  async meaning(feeds: Tensors): Promise<Tensors> {
    const expected = await this.#oracle!.run(feeds);
    if (this.#peer !== undefined) await this.#comparePeer(this.#peer, feeds, expected);
    return expected;
  }

  async #openPeer(): Promise<void> {
    // onnxruntime-node 1.30 gathers the first of several strings that lie together, and leaves the others empty.
    const gathers = this.#random.model.graph.nodes.some(({ opType }) => opType === "Gather" || opType === "If");
    if (gathers && this.#random.caches.some(({ type }) => type === "string")) {
      this.#counts.refused("strings that are gathered");
      return;
    }
    try {
      this.#peer = await openPeer(this.#bytes, { logSeverityLevel: 4 });
      this.#counts.peerGraphs++;
    } catch (error) {
      this.#counts.refused(error);
    }
  }

  async #comparePeer(peer: PeerSession, feeds: Tensors, expected: Tensors): Promise<void> {
    let answered: Awaited<ReturnType<PeerSession["run"]>>;
    try {
      answered = await peer.run(Object.fromEntries(peer.inputNames.map((name) => [name, handOver(feeds[name])])));
    } catch (error) {
      this.#counts.refused(error);
      return;
    }
    this.#counts.peerRuns++;
    for (const { name, approximate } of this.#random.outputs)
      equal(`onnxruntime: ${name}`, expected[name], takeBack(answered[name]), approximate ? "about" : "values");
  }

  async close(): Promise<void> {
    for (const { session } of this.variants) await session.release();
    await this.#oracle?.release();
    await this.#peer?.release();
  }
}
