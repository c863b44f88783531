/**
 * Scores as they enter a Softmax, taken apart: the product of queries and keys, its scale and softcap, and the mask around it.
 */
import { type Element, constantOf, joined, mentions, not, sameElement, truth } from "./element.js";
import { hiding, together, type Visibility, visibilityOf } from "./mask.js";

/** Scores taken apart. */
interface Scores extends Visibility {
  /** An element of the product of queries and keys. */
  readonly product: Element & { readonly kind: "read" };
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
}

/** Takes scores apart; a sentence where they are not understood. */
export function splitScores(scores: Element, isProduct: (element: Element) => boolean): Scores | string {
  const holds = (element: Element): boolean => mentions(element, isProduct);
  const split = (element: Element): Scores | string => {
    if (element.kind === "read")
      return isProduct(element)
        ? { product: element, scale: 1, softcap: 0, visible: truth(true), bias: undefined }
        : `"${element.from.name}" is no product of queries and keys`;
    if (element.kind === "choose") return chosen(element);
    if (element.kind !== "call" || element.node.op.domain !== "")
      return "the scores are no product of queries and keys";
    const { name } = element.node.op;
    const [left, right] = element.of;
    if (right === undefined) return `${element.node.label} stands between the product of queries and keys and Softmax`;
    const [inner, other] = holds(left) ? [left, right] : [right, left];
    if (holds(other)) return `${element.node.label} combines several products of queries and keys`;
    switch (name) {
      case "Add":
        return joinedWith(split(inner), visibilityOf(other), element);
      case "Max":
        return (constantOf(other) ?? 0) <= hiding ? split(inner) : `${element.node.label} bounds the scores`;
      case "Mul":
        return scaled(inner, constantOf(other), element.node.label);
      case "Div": {
        const number = constantOf(other);
        return scaled(inner, number === undefined || inner !== left ? undefined : 1 / number, element.node.label);
      }
      default:
        return `${element.node.label} stands between the product of queries and keys and Softmax`;
    }
  };
  const scaled = (inner: Element, factor: number | undefined, label: string): Scores | string => {
    if (factor === undefined) return `${label} multiplies the scores by something that is not constant`;
    if (inner.kind === "call" && inner.node.op.name === "Tanh") {
      const capped = split(inner.of[0]);
      if (typeof capped === "string") return capped;
      if (!isPlain(capped) || capped.softcap !== 0 || factor <= 0)
        return `${inner.node.label} caps scores that are masked already`;
      return { ...capped, scale: capped.scale * factor, softcap: factor };
    }
    const found = split(inner);
    if (typeof found === "string") return found;
    if (!isPlain(found) || found.softcap !== 0) return `${label} scales scores that are masked or capped already`;
    return { ...found, scale: found.scale * factor };
  };
  const joinedWith = (
    found: Scores | string,
    mask: Visibility,
    by: Element & { readonly kind: "call" },
  ): Scores | string => (typeof found === "string" ? found : { ...found, ...together(found, mask, by) });
  const chosen = (element: Element & { readonly kind: "choose" }): Scores | string => {
    const [inner, other, when] = holds(element.yes)
      ? [element.yes, element.no, element.when]
      : [element.no, element.yes, not(element.when)];
    if ((constantOf(other) ?? 0) > hiding || holds(other)) return "the scores are chosen between two products";
    const found = split(inner);
    return typeof found === "string" ? found : { ...found, visible: joined("and", [found.visible, when]) };
  };
  return split(scores);
}

const isPlain = ({ visible, bias }: Visibility): boolean => bias === undefined && sameElement(visible, truth(true));
