/** Scores of elements as they enter a Softmax: the product of queries and keys, its scale and softcap, and what the masks around it come to. */
import { takeApart, type Terms } from "#insitu/passes/written-scores.js";
import { type Element, constantOf, joined, not, truth } from "./element.js";
import { hiding, together, type Visibility, visibilityOf } from "./mask.js";

/** Scores taken apart. */
interface Scores extends Visibility {
  /** An element of the product of queries and keys. */
  readonly product: Element & { readonly kind: "read" };
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
}

const terms: Omit<Terms<Element>, "isProduct"> = {
  callOf(term) {
    if (term.kind === "choose") return { name: "Where", label: "a choice", of: [term.when, term.yes, term.no] };
    if (term.kind !== "call" || term.node.op.domain !== "") return undefined;
    return { name: term.as ?? term.node.op.name, label: term.node.label, of: term.of };
  },
  numberOf: constantOf,
  hides: (number) => number <= hiding,
  nameOf: (term) => (term.kind === "read" ? term.from.name : undefined),
};

/** Takes scores apart; a sentence where they are not understood. */
export function splitScores(scores: Element, isProduct: (element: Element) => boolean): Scores | string {
  const found = takeApart(scores, { ...terms, isProduct });
  if (typeof found === "string") return found;
  const { product, scale, softcap, masks } = found;
  if (product.kind !== "read") return "the scores are no product of queries and keys";
  const visibility = masks.reduce<Visibility>(
    (before, masking) => {
      if (masking.kind === "added") return together(before, visibilityOf(masking.mask), masking.at);
      const when = masking.keeps ? masking.when : not(masking.when);
      return { ...before, visible: joined("and", [before.visible, when]) };
    },
    { visible: truth(true), bias: undefined },
  );
  return { product, scale, softcap, ...visibility };
}
