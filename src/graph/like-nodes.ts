/**
 * What the shape rules of nodes told, for nodes that are alike: models repeat their layers, and a rule that is given the same says the same. What a rule
 * looked at of its operands' contents must be the very same; what it made up, dimensions that nothing is known about, is each node's own. Each counts the
 * terms that it would have worked on, so that what is left for the others is the same.
 */
import type { Callable } from "./call.js";
import { countTerms, type Dim, sameShape, type Shape, termsLeft } from "./dim.js";
import type { Fact } from "./fact.js";
import type { Op } from "./op.js";

type Facts = readonly (Fact | undefined)[];

/** An operand that notes when a rule looks at its contents. */
class WatchedFact implements Fact {
  readonly type: Fact["type"];
  readonly shape: Fact["shape"];
  readonly #fact: Fact;
  isLookedInto = false;

  constructor(fact: Fact) {
    [this.type, this.shape, this.#fact] = [fact.type, fact.shape, fact];
  }

  get integers(): Fact["integers"] {
    this.isLookedInto = true;
    return this.#fact.integers;
  }

  get constant(): Fact["constant"] {
    this.isLookedInto = true;
    return this.#fact.constant;
  }
}

/** Like nodes whose operands' contents differ, in all that are kept: a file may have any number of them. */
const mostContents = 8;

const texts = new WeakMap<Callable, string>();
const numbers = new WeakMap<Op, number>();
let count = 0;

/** The same for nodes whose rules say the same of the same operands; empty for those of which that is not known. */
function textOf(node: Callable): string {
  let text = texts.get(node);
  if (text !== undefined) return text;
  if (!numbers.has(node.op)) numbers.set(node.op, count++);
  const isPlain = (value: unknown): boolean =>
    Number.isFinite(value) || ["string", "boolean", "undefined"].includes(typeof value);
  const attributes = Object.entries(node.attrs);
  const arePlain = attributes.every(([, value]) => (Array.isArray(value) ? value.every(isPlain) : isPlain(value)));
  text = arePlain ? `${numbers.get(node.op)} ${node.opset} ${node.wanted.join()} ${JSON.stringify(attributes)}` : "";
  texts.set(node, text);
  return text;
}

/** What was told of operands, which of them were looked into, and the terms of symbolic dimensions that it took. */
interface Told {
  readonly inputs: Facts;
  readonly looked: readonly number[];
  readonly results: readonly Fact[];
  readonly terms: number;
}

/** Those of one inference. */
export class LikeNodes {
  readonly #told = new Map<string, Told[]>();

  /** What a node's rule tells of operands: by `infer`, unless a node that is alike was told of the same. */
  outputsOf(node: Callable, inputs: Facts, infer: (inputs: Facts) => Fact[]): readonly Fact[] {
    const text = textOf(node);
    if (text === "") return infer(inputs);
    const key = inputs.reduce((own, fact) => `${own} ${fact?.type}[${fact?.shape?.join() ?? "?"}]`, text);
    const known = this.#told.get(key) ?? [];
    const same = known.find((told) =>
      inputs.every((fact, at) => isAlike(told.inputs[at], fact, told.looked.includes(at))),
    );
    if (same !== undefined && (same.terms === 0 || same.terms <= termsLeft())) {
      countTerms(same.terms);
      return same.results;
    }
    const watched = inputs.map((fact) => fact && new WatchedFact(fact));
    const left = termsLeft();
    const results = infer(watched);
    const terms = left === Infinity ? 0 : left - termsLeft();
    if (
      same !== undefined ||
      known.length >= mostContents ||
      results.some(({ shape, integers }) => [...(shape ?? []), ...(integers ?? [])].some(isMadeUp))
    )
      return results;
    const looked = watched.flatMap((fact, at) => (fact?.isLookedInto === true ? [at] : []));
    known.push({ inputs, looked, results, terms });
    this.#told.set(key, known);
    return results;
  }
}

/** True for a dimension that is made up, for what is computed of one, and for few others that look so: those are each node's own too. */
const isMadeUp = (dim: Dim): boolean => typeof dim !== "number" && /\?~?\d/.test(String(dim));

/** Names of dimensions may be any text: what is one as text need not be one. */
const isAlike = (a: Fact | undefined, b: Fact | undefined, isLookedInto: boolean): boolean =>
  a === b ||
  (isSameShape(a?.shape, b?.shape) && (!isLookedInto || (a!.constant === b!.constant && a!.integers === b!.integers)));

const isSameShape = (a: Shape | undefined, b: Shape | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && sameShape(a, b));
