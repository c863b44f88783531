// The near misses of all passes: what is written by hand, and every change of one detail of a graph that the pass takes.
import type { Base, Drawn } from "./draft.js";
import { activationBases } from "./bases/activations.js";
import { attentionBases } from "./bases/attention.js";
import { cacheBases } from "./bases/caches.js";
import { normBases } from "./bases/norms.js";
import { pageBases } from "./bases/pages.js";
import { productBases } from "./bases/products.js";
import { redundantBases } from "./bases/redundant.js";
import { rotaryBases } from "./bases/rotary.js";
import { detailsOf, resized } from "./details.js";

export const bases: readonly Base[] = [
  ...activationBases,
  ...attentionBases,
  ...cacheBases,
  ...normBases,
  ...pageBases,
  ...productBases,
  ...redundantBases,
  ...rotaryBases,
];

/** A graph to be run. */
export interface NearMiss {
  readonly name: string;
  readonly base: Base;
  readonly drawn: Drawn;
}

/** What a near miss is called among all. */
export const keyOf = ({ base, name }: NearMiss): string => `${base.pass}, ${base.form}: ${name}`;

/** Near misses that are in every sample: a pass took them once. */
export const pinned: ReadonlySet<string> = new Set([
  ...["heads side by side", "heads in front"].flatMap((form) =>
    [
      "heads are turned by halves",
      "one write, sizes of 1",
      "two attentions over one cache",
      "values of the new keys",
      "queries of the new keys",
    ].map((name) => `fuse-cached-attention, ${form}: ${name}`),
  ),
  "fuse-cached-attention, heads in front: samples and rows change places behind",
  "fuse-cached-attention, heads in front: samples and rows are joined behind, as many of both",
  "fuse-cached-attention, pages: samples and rows change places behind",
  "fuse-cached-attention, pages: heads are turned by halves",
  "fuse-skip-normalization, LayerNormalization: a sum that float16 rounds",
  "merge-equal-nodes, attributes: zeros of other signs",
]);

/** Every graph but the base's own. What is written by hand is run in other sizes too. */
export function missesOf(base: Base): NearMiss[] {
  const others = Object.entries(base.others ?? {}).flatMap(([name, drawn]): [string, Drawn][] => [
    [name, drawn],
    ...sizes.map((size): [string, Drawn] => [`${name}, sizes of ${size}`, resized(drawn, size)]),
  ]);
  const own = sizes.map((size): [string, Drawn] => [`sizes of ${size}`, resized(base.drawn, size)]);
  return [...others, ...own, ...Object.entries(detailsOf(base.drawn))].map(([name, drawn]) => ({ name, base, drawn }));
}

/** What all dimensions are that have names. */
const sizes = [1, 2] as const;
