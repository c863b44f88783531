/** What is left of a JSON Schema once it was read: which values it allows, in few forms. */

/** A schema that was read. */
export type ReadSchema =
  | { readonly kind: "any" }
  | { readonly kind: "reference"; readonly to: Target }
  | { readonly kind: "choice"; readonly options: readonly ReadSchema[] }
  | { readonly kind: "values"; readonly values: readonly unknown[] }
  | {
      readonly kind: "typed";
      readonly types: readonly string[];
      readonly path: string;
      readonly string: StringRules;
      readonly number: NumberRules;
      readonly array: ArrayRules;
      readonly object: ObjectRules;
    };

/** What a reference refers to; it is there once all was read. */
export interface Target {
  readonly path: string;
  schema?: ReadSchema;
}

/** What a string must be. */
export interface StringRules {
  /** All of them are found in it. */
  readonly patterns: readonly string[];
  /** None of them is. */
  readonly without: readonly string[];
  readonly minLength: number;
  readonly maxLength: number;
}

/** What a number must be. */
export interface NumberRules {
  readonly bounds: Readonly<Record<string, number>>;
  /** It is a multiple of each. */
  readonly multiples: readonly number[];
}

/** What an array must be: the first elements, which are all there, and the others; false where there are none. */
export interface ArrayRules {
  readonly first: readonly ReadSchema[];
  readonly others: ReadSchema | false;
  /** Where no two elements may be alike: these values in their order, some of them. */
  readonly distinct?: readonly unknown[] | undefined;
  readonly least: number;
  readonly most: number;
}

/** What an object must be: the properties that it lists and no others, or any whose names and values obey something. */
export type ObjectRules = (
  | { readonly kind: "closed"; readonly properties: readonly Property[] }
  | { readonly kind: "open"; readonly members: readonly Member[] }
) & { readonly least: number; readonly most: number };

interface Property {
  readonly name: string;
  readonly schema: ReadSchema;
  readonly isRequired: boolean;
}

/** Properties by what their names obey, in which none of some patterns is found, and what their values obey. */
export interface Member {
  readonly names: ReadSchema;
  readonly without: readonly string[];
  readonly values: ReadSchema;
}
