/** The words that a decoder's sizes are told in: samples, new tokens, and the rows that caches hold. */
import { type Dim, symbol } from "#insitu/graph/dim.js";

/** Samples of a run. */
export const batch: Dim = symbol("batch");
/** New tokens of a run. */
export const sequence: Dim = symbol("sequence");
/** Rows that caches hold before a run. */
export const past: Dim = symbol("past");

/** Sizes that are at least 1. */
export const positiveSizes: readonly string[] = ["batch", "sequence"];

/** Symbols of the inputs, each with what it stands for. */
export type Roles = ReadonlyMap<string, Dim>;
