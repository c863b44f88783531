/** Texts that must obey a grammar: what tells which token may come next. Knows no grammar and no model. */

/** Which tokens may come next, for a text that must obey a grammar. One for each text. */
export interface TokenConstraint {
  /** Sets the bit of every token that may come next, and says whether any token is ruled out at all. */
  fillMask(mask: Uint32Array): boolean;
  /** The text goes on with this token; false where the grammar does not have it. */
  accept(token: number): boolean;
  /** Takes back the last tokens. */
  rollback(count: number): void;
  /** True if the text may end as it is; where left out, its masks say so. */
  readonly mayEnd?: boolean;
  /** True if this would be a whole text: a stop string ends a text only where it is. Where left out, it is once the text has terminated. */
  allows?(text: string): boolean;
  /** True once nothing but an end token may come. */
  readonly terminated: boolean;
}

/** A constraint that holds memory until it is released; after that it rules nothing out. */
export interface HeldConstraint extends TokenConstraint {
  release(): void;
}

/** A constraint for one text, and what lets go of it when the text is made. */
export interface TakenConstraint {
  readonly rule: TokenConstraint;
  release(): void;
}

/** A JSON Schema: an object of keywords, or true for any value. */
export type JsonSchema = boolean | Readonly<Record<string, unknown>>;

/** A piece of a text whose form is given. */
export type TextPart =
  /** This, letter by letter. */
  | string
  /** JSON that a schema allows. */
  | { readonly schema: JsonSchema }
  /** An object, whatever is in it. */
  | { readonly object: true }
  /** Text that a regular expression matches as a whole. */
  | { readonly regex: string }
  /** Text by a grammar in GBNF. */
  | { readonly grammar: string }
  /** Any text up to the first of this mark, which is part of it. It has none of what it must be without. */
  | { readonly until: string; readonly without?: readonly string[] }
  /** Any text that does not have this. */
  | { readonly without: string }
  /** Any text whose first letter, but for blanks, is none of these. */
  | { readonly notBeginning: string }
  | { readonly sequence: readonly TextPart[] }
  | { readonly choice: readonly TextPart[] }
  /** At least one, or as many as `least` says, 0 or 1. */
  | { readonly repeat: TextPart; readonly between: string; readonly least?: 0 | 1 };

/** What a text must be. */
export type TextRule =
  /** JSON that a schema allows. Objects have no properties beside those that it lists. */
  | { readonly kind: "schema"; readonly schema: JsonSchema }
  /** An object, whatever is in it. */
  | { readonly kind: "object" }
  /** Text that a regular expression matches from its first to its last character. */
  | { readonly kind: "regex"; readonly pattern: string }
  /** Text by a grammar as llama.cpp has it (GBNF), from its rule "root" on. */
  | { readonly kind: "grammar"; readonly grammar: string }
  /** One of these texts. */
  | { readonly kind: "choice"; readonly texts: readonly string[] }
  /** Of a form: calls of tools, free text up to a mark, JSON in between. */
  | { readonly kind: "structure"; readonly part: TextPart };

/** Makes constraints by rules. A rule that cannot be enforced as a whole is refused. */
export interface Grammars {
  constrain(rule: TextRule): Promise<HeldConstraint>;
}

/** What a grammar must know of a tokenizer: how tokens are spelled, and what the spelling stands for. */
export interface GrammarVocabulary {
  /** "byte_level": a letter for each byte; "byte_fallback": text, and <0x0A> for a byte; "raw": text. */
  readonly kind: "byte_level" | "byte_fallback" | "raw";
  /** By token; none for those that are no text. */
  readonly spellings: readonly string[];
  readonly endTokens: readonly number[];
}

/** Makes grammars for a vocabulary: `entry/` brings it along. */
export type MakeGrammars = (vocabulary: GrammarVocabulary) => Promise<Grammars>;
