/**
 * What an attention's mask means: which keys a query sees, and what is added to their scores. Understands masks by what their elements
 * are, however they were built; what is neither causal nor a window stays an expression that can be computed again.
 */
import { unreachable } from "#insitu/base/error.js";
import { addDims, type Dim, isKnown, sameDim, subtractDims } from "#insitu/graph/dim.js";
import { choose, constantOf, type Element, joined, numeric, truth } from "./element.js";

/** A mask taken apart. */
export interface Visibility {
  /** True where the key is seen. */
  readonly visible: Element;
  /** What is added to the scores of keys that are seen; undefined for nothing. */
  readonly bias: Element | undefined;
}

/** Numbers from here down hide a key when they are added to its score. */
export const hiding = -1e4;

const seen: Visibility = { visible: truth(true), bias: undefined };
const hidden: Visibility = { visible: truth(false), bias: undefined };

/** A mask that is added to scores, taken apart. */
export function visibilityOf(mask: Element): Visibility {
  const number = constantOf(mask);
  if (number !== undefined)
    return number === 0 ? seen : number <= hiding ? hidden : { visible: truth(true), bias: mask };
  if (mask.kind === "choose") {
    const [yes, no] = [visibilityOf(mask.yes), visibilityOf(mask.no)];
    return { visible: choose(mask.when, yes.visible, no.visible), bias: chosenBias(mask.when, yes, no) };
  }
  if (mask.kind === "call" && mask.node.op.domain === "") {
    const [left, right] = mask.of;
    if (mask.node.op.name === "Add") return together(visibilityOf(left), visibilityOf(right), mask);
    // A floor under the scores changes nothing that is seen.
    if (mask.node.op.name === "Max" && (constantOf(right) ?? 0) <= hiding) return visibilityOf(left);
    if (mask.node.op.name === "Max" && (constantOf(left) ?? 0) <= hiding) return visibilityOf(right);
  }
  return { visible: truth(true), bias: mask };
}

function chosenBias(when: Element, yes: Visibility, no: Visibility): Element | undefined {
  if (isHidden(yes)) return no.bias;
  if (isHidden(no)) return yes.bias;
  if (yes.bias === undefined && no.bias === undefined) return undefined;
  return choose(when, yes.bias ?? numeric(0), no.bias ?? numeric(0));
}

const isHidden = ({ visible }: Visibility): boolean => visible.kind === "truth" && !visible.value;

/** Two masks added up by the operator that makes `sum`. */
export function together(a: Visibility, b: Visibility, sum: Element): Visibility {
  if (sum.kind !== "call") unreachable("a sum is no operator's");
  const bias = a.bias === undefined ? b.bias : b.bias === undefined ? a.bias : { ...sum, of: [a.bias, b.bias] };
  return { visible: joined("and", [a.visible, b.visible]), bias };
}

/** The indices that masks are asked about. */
interface MaskIndex {
  readonly query: Dim;
  readonly key: Dim;
  /** Rows before the first query. */
  readonly past: Dim;
}

/** What a visibility comes down to. */
export interface MaskMeaning {
  /** Keys up to the query's own are seen, and none behind it. */
  readonly causal: boolean;
  /** Of those, only this many, the query's own included. */
  readonly window: number | undefined;
  /** What else must hold for a key to be seen. */
  readonly others: readonly Element[];
  readonly bias: Element | undefined;
}

/** Recognises causal masks and windows among the conditions of a visibility. */
export function meaningOf({ visible, bias }: Visibility, { query, key, past }: MaskIndex): MaskMeaning {
  const own = addDims(past, query);
  const ahead = subtractDims(own, key); // at least 0 for the query's own key and those before it
  let causal = false;
  let window: number | undefined;
  const others: Element[] = [];
  for (const condition of visible.kind === "and" ? visible.of : [visible]) {
    if (condition.kind === "truth" && condition.value) continue;
    if (condition.kind === "at-least-zero") {
      const behind = addDims(condition.value, ahead); // a number where the condition bounds the distance from below
      if (sameDim(condition.value, ahead)) {
        causal = true;
        continue;
      }
      if (isKnown(behind) && behind >= 0) {
        window = Math.min(window ?? Infinity, behind + 1);
        continue;
      }
    }
    others.push(condition);
  }
  return { causal, window, others, bias };
}
