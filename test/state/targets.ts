// Which outputs a run is asked for and what they are written into: nothing, a fresh tensor, one that lies beside others in one buffer, the
// very tensor of a feed, one that overlaps a feed's, or a cache that the state shows. The plan is made once and built for each session.
import { arrayConstructorOf, type ElementType, storageLengthOf } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { elementCount } from "../../src/tensor/view.js";
import type { Chance } from "./chance.js";
import { copyOf, type Tensors } from "./compare.js";

/** Feeds and fetches of one run of one session. */
export interface Targets {
  readonly feeds: Tensors;
  readonly fetches: readonly string[] | Record<string, Tensor | null> | undefined;
  /** The tensors among the fetches. */
  readonly given: Readonly<Record<string, Tensor | null>>;
  /** Feeds that nothing writes, and what is in them. */
  readonly untouched: ReadonlyMap<string, { readonly tensor: Tensor; readonly before: Tensor }>;
}

/** What an output is written into. */
type Choice =
  | { readonly kind: "none" | "fresh" | "beside" }
  | { readonly kind: "feed"; readonly feed: string }
  | { readonly kind: "overlap"; readonly feed: string; readonly shift: number }
  | { readonly kind: "cache"; readonly cache: string };

/** The choices for one run. */
export interface TargetPlan {
  readonly text: string;
  /** The outputs that are named; undefined where none are. */
  readonly wanted: readonly string[] | undefined;
  readonly choices: ReadonlyMap<string, Choice>;
  /** Feeds that are a cache of the state, seen live. */
  readonly live: ReadonlyMap<string, string>;
}

/** Feeds that are to be caches of the state, seen live, among those of their type and shape. */
export function chooseLive(chance: Chance, feeds: Tensors, caches: Tensors): Map<string, string> {
  const live = new Map<string, string>();
  for (const [name, feed] of Object.entries(feeds)) {
    const like = Object.keys(caches).filter((cache) => String(caches[cache]) === String(feed));
    if (like.length > 0 && chance.of(0.3)) live.set(name, chance.oneOf(like));
  }
  return live;
}

/** Chooses for one run. `expected` are all outputs as they will be. */
export function chooseTargets(
  chance: Chance,
  expected: Tensors,
  feeds: Tensors,
  caches: Tensors,
  live: ReadonlyMap<string, string>,
): TargetPlan {
  const kind = chance.below(4);
  const names = Object.keys(expected).filter(() => chance.of(0.7));
  if (names.length === 0) names.push(chance.oneOf(Object.keys(expected)));
  if (chance.of(0.5)) names.reverse();
  const taken = new Set(live.keys());
  const choices = new Map(
    kind < 2
      ? []
      : names.map((name): [string, Choice] => [name, chooseOne(chance, expected[name], feeds, caches, taken)]),
  );
  const wanted = kind === 0 ? undefined : names;
  const words =
    choices.size === 0
      ? (wanted ?? ["nothing named"])
      : [...choices].map(([name, choice]) => `${name} → ${Object.values(choice).join(" ")}`);
  const fed = [...live].map(([name, cache]) => `${name} is ${cache}, live`);
  return { text: [...words, ...fed].join(", "), wanted, choices, live };
}

const hasBytes = (tensor: Tensor): boolean => tensor.type !== "string" && tensor.size > 0;

function chooseOne(chance: Chance, output: Tensor, feeds: Tensors, caches: Tensors, taken: Set<string>): Choice {
  const take = (name: string): string => {
    taken.add(name);
    return name;
  };
  const like = (tensors: Tensors): string[] =>
    Object.keys(tensors).filter((name) => !taken.has(name) && String(tensors[name]) === String(output));
  const [alike, held] = [like(feeds), like(caches)];
  const near = Object.keys(feeds).filter((name) => !taken.has(name) && hasBytes(feeds[name]));
  const roll = chance.random();
  if (roll < 0.3 && alike.length > 0) return { kind: "feed", feed: take(chance.oneOf(alike)) };
  if (roll < 0.45 && held.length > 0) return { kind: "cache", cache: take(chance.oneOf(held)) };
  if (roll < 0.65 && near.length > 0 && hasBytes(output))
    return { kind: "overlap", feed: take(chance.oneOf(near)), shift: 8 * chance.below(4) };
  if (roll < 0.8 && hasBytes(output)) return { kind: "beside" };
  return { kind: roll < 0.9 ? "fresh" : "none" };
}

/** The tensors of a plan, made anew. `cacheOf` shows a cache of the state. */
export function buildTargets(
  { wanted, choices, live }: TargetPlan,
  expected: Tensors,
  given: Tensors,
  cacheOf: (name: string) => Tensor,
): Targets {
  const feeds: Tensors = {};
  for (const [name, tensor] of Object.entries(given))
    feeds[name] = live.has(name) ? cacheOf(live.get(name)!) : copyOf(tensor);
  const written = new Set(live.keys());
  const common = new ArrayBuffer(Object.values(expected).reduce((sum, tensor) => sum + 16 + 16 * tensor.size, 8));
  let end = 8;
  const targetOf = (output: Tensor, choice: Choice): Tensor | null => {
    switch (choice.kind) {
      case "none":
        return null;
      case "fresh":
        return filled(copyOf(output));
      case "beside": {
        const target = placed(output.type, output.dims, common, end);
        end += 8 * Math.ceil((target.data as Uint8Array).byteLength / 8);
        return target;
      }
      case "feed":
        written.add(choice.feed);
        return feeds[choice.feed];
      case "overlap": {
        // Feed and target in one buffer, whatever their types: one begins a few bytes after the other.
        const before = given[choice.feed];
        const data = before.data as Uint8Array;
        const buffer = new ArrayBuffer(64 + data.byteLength + (output.data as Uint8Array).byteLength);
        const [feedStart, targetStart] = choice.shift === 0 ? [8, 0] : [0, choice.shift - 8];
        const feed = placed(before.type, before.dims, buffer, feedStart);
        (feed.data as Uint8Array).set(data);
        feeds[choice.feed] = feed;
        written.add(choice.feed);
        return placed(output.type, output.dims, buffer, targetStart);
      }
      case "cache":
        return cacheOf(choice.cache);
      default:
        return choice satisfies never;
    }
  };
  const targets = Object.fromEntries([...choices].map(([name, choice]) => [name, targetOf(expected[name], choice)]));
  const untouched = Object.keys(feeds).filter((name) => !written.has(name));
  return {
    feeds,
    fetches: choices.size === 0 ? wanted : targets,
    given: targets,
    untouched: new Map(untouched.map((name) => [name, { tensor: feeds[name], before: given[name] }])),
  };
}

/** The tensor with other contents: what was there before a run must not look right. */
function filled(tensor: Tensor): Tensor {
  if (tensor.type === "string") (tensor.data as string[]).fill("before");
  else if (tensor.type === "int64") (tensor.data as BigInt64Array).fill(77n);
  else (tensor.data as Uint8Array).fill(77);
  return tensor;
}

/** A tensor at a place of a buffer. */
function placed(type: ElementType, dims: readonly number[], buffer: ArrayBuffer, start: number): Tensor {
  if (type === "string") throw new Error("strings have no bytes");
  const length = storageLengthOf(type, elementCount(dims));
  return new Tensor(String(type), new (arrayConstructorOf(type))(buffer, start, length), dims);
}
