/** How many steps the reference implementation takes where that is more than a few for each element: what declarations say in `work`. */
import { type Fact, knownSize } from "../../../graph/fact.js";

/** Elements of an operand; without end where that is not known. */
export const sizeOf = (fact: Fact): number => knownSize(fact) ?? Infinity;

/** Every element of one operand meets every element of the others: never less than a product, a convolution or an attention takes. */
export const eachWithEach = (...operands: readonly (Fact | undefined)[]): number =>
  operands.reduce((steps, fact) => (fact === undefined ? steps : steps * Math.max(1, sizeOf(fact))), 1);

/** All elements are brought into order. */
export const inOrder = (operand: Fact): number => sizeOf(operand) * Math.log2(2 + sizeOf(operand)) * 4;

/** Every query meets every key, those of the past included; without keys of their own, the queries bring them. */
export const attentionSteps = (queries: Fact, keys: Fact | undefined, past: Fact | undefined): number =>
  eachWithEach(queries, keys ?? queries) + (past === undefined ? 0 : eachWithEach(queries, past));
