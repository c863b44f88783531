/** One session that several contestants run on, each with feeds of its own: a large model and its caches are there once. */
import { InferenceSession } from "#insitu/entry/node.js";
import type { StateOptions } from "#insitu/session/create-state.js";
import type { Contestant, Setting } from "./load.js";
import type { OrtTensors, Peer } from "./peers.js";
import { floatsOf, type Tensors } from "./work.js";

/** A session that runs on feeds. */
interface Opened {
  /** Puts things back as they were at the beginning. */
  reset(): void;
  run(feeds: Tensors): Promise<Readonly<Record<string, { readonly data: unknown }>>>;
  release(): Promise<void>;
}

/** A session that is opened for its first contestant and released with its last. */
export class Shared {
  readonly #open: () => Promise<Opened>;
  #opened: Promise<Opened> | undefined;
  #users = 0;

  constructor(open: () => Promise<Opened>) {
    this.#open = open;
  }

  /** A contestant that runs on the session. */
  contestant(name: string, runtime: string, feeds: () => Tensors, output: string): Contestant {
    return {
      name,
      runtime,
      start: async () => {
        this.#users++;
        const opened = await (this.#opened ??= this.#open());
        const given = feeds();
        return {
          run: async () => void (await opened.run(given)),
          result: async () => {
            opened.reset();
            return floatsOf((await opened.run(given))[output].data);
          },
          stop: () => this.#leave(opened),
        };
      },
    };
  }

  async #leave(opened: Opened): Promise<void> {
    if (--this.#users > 0) return;
    this.#opened = undefined;
    await opened.release();
  }
}

/** insitu: with a state where there are contents for one, else everything fed. */
export async function openInsitu(
  model: Uint8Array,
  { backend, threads }: Setting,
  held?: { readonly options: StateOptions; readonly contents: () => Tensors },
): Promise<Opened> {
  const session = await InferenceSession.create(model, {
    inPlace: held === undefined ? "prefer" : "require",
    threads,
    ...(backend === undefined ? {} : { backend }),
  });
  const state = held && session.createState(held.options);
  return {
    reset: () => {
      for (const [name, tensor] of Object.entries(held?.contents() ?? {})) state!.set(name, tensor);
    },
    run: (feeds) => session.run(feeds, state === undefined ? {} : { state }),
    release: () => session.release(),
  };
}

/** A peer: everything fed. Feeds become its tensors once. */
export async function openPeer(model: Uint8Array, peer: Peer): Promise<Opened> {
  const session = await peer.session(model);
  const made = new Map<Tensors, OrtTensors>();
  const tensorsOf = (feeds: Tensors): OrtTensors => {
    const known = made.get(feeds);
    if (known !== undefined) return known;
    const tensors = Object.fromEntries(
      Object.entries(feeds).map(([name, { type, data, dims }]) => [
        name,
        peer.tensor(type, data as ArrayBufferView, dims),
      ]),
    );
    made.set(feeds, tensors);
    return tensors;
  };
  return { reset: () => {}, run: (feeds) => session.run(tensorsOf(feeds)), release: () => session.release() };
}
