/**
 * Work that several runtimes do: a model and what it is fed, given to insitu, with states where it has caches, and to peers.
 * Knows no operator and no clock.
 */
import { InferenceSession } from "#insitu/entry/node.js";
import type { StateOptions } from "#insitu/session/create-state.js";
import { readNumbers } from "#insitu/tensor/access.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import type { Profile, Running, Setting } from "./load.js";
import { profileOf } from "./ort-profile.js";
import type { OrtFetches, OrtSession, OrtTensor, OrtTensors, Peer } from "./peers.js";

/** Tensors by name. */
export type Tensors = Readonly<Record<string, Tensor>>;

/** What is computed, once a run. */
export interface Work {
  /** The model's bytes. */
  readonly model: () => Uint8Array;
  /** What runs are fed, in turn: several where one would fit into a processor's cache. All have the same contents. */
  readonly rounds: readonly Tensors[];
  /** The outputs that are compared, one behind the other. */
  readonly outputs: readonly string[];
}

/** States that runs of insitu go round through. */
interface Caches {
  readonly options?: StateOptions;
  /** What each state begins with. */
  readonly contents: readonly Tensors[];
}

/** Floats of any kind as float32. */
export const floatsOf = (data: unknown): Float32Array =>
  data instanceof Uint16Array
    ? Float32Array.from(readNumbers(new Tensor("float16", data, [data.length]).toView()))
    : (data as Float32Array);

/** The numbers of all outputs, one behind the other. */
function numbersOf(
  outputs: readonly string[],
  results: Readonly<Record<string, { readonly data: unknown }>>,
): Float32Array {
  const parts = outputs.map((name) => floatsOf(results[name].data));
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** insitu: caches in states where there are some, else everything fed. */
export async function startInsitu(
  { model, rounds, outputs }: Work,
  { backend, threads }: Setting,
  caches?: Caches,
): Promise<Running> {
  const session = await InferenceSession.create(model(), {
    inPlace: caches === undefined ? "prefer" : "require",
    threads,
    ...(backend === undefined ? {} : { backend }),
  });
  const options = (caches?.contents ?? []).map((contents) => {
    const state = session.createState(caches?.options);
    for (const [name, tensor] of Object.entries(contents)) state.set(name, tensor);
    return { state };
  });
  let count = 0;
  return {
    run: async () => {
      count++;
      await session.run(rounds[count % rounds.length], options[count % options.length]);
    },
    result: async () => numbersOf(outputs, await session.run(rounds[0], options[0])),
    stop: () => session.release(),
  };
}

/** What a peer fetches, from the tensors that it is fed: null for a fresh result, a tensor to write into; all outputs where left out. */
export type Fetching = (fed: OrtTensors) => OrtFetches;

/** A peer: everything fed. */
export async function startPeer({ model, rounds, outputs }: Work, peer: Peer, fetching?: Fetching): Promise<Running> {
  const bytes = model();
  const session = await peer.session(bytes);
  const fed = rounds.map((tensors) => peerTensors(peer, tensors));
  const fetches = fed.map((tensors) => fetching?.(tensors));
  let count = 0;
  const next = (on: OrtSession): Promise<OrtTensors> => {
    count++;
    return on.run(fed[count % fed.length], fetches[count % fed.length]);
  };
  return {
    run: async () => void (await next(session)),
    result: async () => numbersOf(outputs, await session.run(fed[0], fetches[0])),
    ...(peer.profiles ? { profile: (): Promise<Profile> => profileOf(peer, bytes, next) } : {}),
    stop: () => session.release(),
  };
}

/** Tensors of a peer over the same bytes. */
const peerTensors = (peer: Peer, tensors: Tensors): OrtTensors =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { type, data, dims }]): [string, OrtTensor] => [
      name,
      peer.tensor(type, data as ArrayBufferView, dims),
    ]),
  );

/** A tensor of whole numbers. */
export const integers = (type: "int32" | "int64", values: readonly number[], dims: readonly number[]): Tensor =>
  type === "int32"
    ? new Tensor("int32", Int32Array.from(values), dims)
    : new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** The same contents in memory of their own. */
export const copied = (tensor: Tensor): Tensor =>
  new Tensor(tensor.type as string, (tensor.data as Float32Array).slice(), tensor.dims);

/** The typical size of numbers: the root of the mean of their squares. */
const typicalSize = (numbers: Float32Array): number =>
  Math.sqrt(numbers.reduce((sum, each) => sum + each * each, 0) / numbers.length);

/** A sentence if the differences are, typically, more than `part` of what is expected; undefined where not. */
export function farOnTheWhole(result: Float32Array, expected: Float32Array, part: number): string | undefined {
  if (result.length !== expected.length) return `has ${result.length} elements instead of ${expected.length}`;
  const share = typicalSize(result.map((each, at) => each - expected[at])) / typicalSize(expected);
  return share <= part ? undefined : `is off by ${(share * 100).toPrecision(2)} % of its size`;
}

/** A sentence about the first element that is off by more than `part` of the expected values' typical size; undefined where none is. */
export function farOff(result: Float32Array, expected: Float32Array, part: number): string | undefined {
  if (result.length !== expected.length) return `has ${result.length} elements instead of ${expected.length}`;
  const typical = typicalSize(expected);
  const at = result.findIndex((each, index) => !(Math.abs(each - expected[index]) <= part * typical));
  return at < 0 ? undefined : `is ${result[at]} at element ${at} instead of ${expected[at]}`;
}

/** Copies to go round through, so that what runs read in turn does not fit into a processor's cache. */
export const copiesOf = (bytes: number): number => Math.max(2, Math.min(12, Math.ceil((3 * 2 ** 25) / bytes)));

/** What `make` makes, made when first asked for: what is not measured costs nothing. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}
