/** The products of a SharedProducts by their numbers, in which the names of their operands, columns and results end. */

type Place = 1 | 2 | 3;

/** What decides the body. */
export interface SharedCall {
  readonly inputs: Readonly<Record<`zero_points${Place}` | `bias${Place}` | "B3", unknown>>;
  readonly attrs: Readonly<Record<"K" | "bits" | "block_size" | "accuracy_level" | `N${Place}`, number>>;
}

/** Three products, or two where the last is left out. */
export const placesOf = ({ inputs }: { readonly inputs: Pick<SharedCall["inputs"], "B3"> }): readonly Place[] =>
  inputs.B3 === undefined ? [1, 2] : [1, 2, 3];
