/** The special tokens around a text, or around two: as tokenizer.json's post-processor says. Cuts what is too long inside of them. */
import type { Json } from "#insitu/generate/model-folder.js";

/** Tokens, and which of two texts each belongs to. */
export interface FramedTokens {
  readonly tokens: readonly number[];
  readonly types: readonly number[];
}

/** A piece of a frame: special tokens, or one of the texts. */
type Piece =
  | { readonly tokens: readonly number[]; readonly type: number }
  | { readonly text: 0 | 1; readonly type: number };

/** How texts stand between special tokens. */
export class TokenFrame {
  readonly #single: readonly Piece[];
  readonly #pair: readonly Piece[];

  constructor(tokenizer: object) {
    const { single, pair } = readFrames((tokenizer as Json)["post_processor"]);
    this.#single = single;
    this.#pair = pair;
  }

  /** One text, cut at its end so that all has at most so many tokens. */
  single(text: readonly number[], most: number): FramedTokens {
    return framed(this.#single, [text.slice(0, Math.max(0, most - around(this.#single)))]);
  }

  /** Two texts: the second is cut first. */
  pair(first: readonly number[], second: readonly number[], most: number): FramedTokens {
    const room = Math.max(0, most - around(this.#pair));
    const a = first.slice(0, room);
    return framed(this.#pair, [a, second.slice(0, room - a.length)]);
  }
}

const around = (pieces: readonly Piece[]): number =>
  pieces.reduce((sum, each) => sum + ("tokens" in each ? each.tokens.length : 0), 0);

function framed(pieces: readonly Piece[], texts: readonly (readonly number[])[]): FramedTokens {
  const all = pieces.map((each) => ({ tokens: "tokens" in each ? each.tokens : texts[each.text], type: each.type }));
  return {
    tokens: all.flatMap(({ tokens }) => tokens),
    types: all.flatMap(({ tokens, type }) => tokens.map(() => type)),
  };
}

const bare: { readonly single: readonly Piece[]; readonly pair: readonly Piece[] } = {
  single: [{ text: 0, type: 0 }],
  pair: [
    { text: 0, type: 0 },
    { text: 1, type: 0 },
  ],
};

function readFrames(given: unknown): typeof bare {
  const processor = given as Json | null | undefined;
  switch (processor?.["type"]) {
    case "TemplateProcessing":
      return { single: template(processor, "single"), pair: template(processor, "pair") };
    case "BertProcessing":
    case "RobertaProcessing": {
      const [sep, cls] = ["sep", "cls"].map((name) => [(processor[name] as readonly [string, number])[1]]);
      const isBert = processor["type"] === "BertProcessing";
      const begin: readonly Piece[] = [
        { tokens: cls, type: 0 },
        { text: 0, type: 0 },
        { tokens: sep, type: 0 },
      ];
      const type = isBert ? 1 : 0;
      const between: readonly Piece[] = isBert ? [] : [{ tokens: sep, type: 0 }];
      return { single: begin, pair: [...begin, ...between, { text: 1, type }, { tokens: sep, type }] };
    }
    case "Sequence": {
      const all = (processor["processors"] ?? []) as readonly Json[];
      const known = all.find((each) => /Template|Bert/.test(String(each["type"])));
      return known === undefined ? bare : readFrames(known);
    }
    default:
      return bare;
  }
}

interface TemplatePiece {
  readonly SpecialToken?: { readonly id: string; readonly type_id: number };
  readonly Sequence?: { readonly id: "A" | "B"; readonly type_id: number };
}

function template(processor: Json, name: "single" | "pair"): readonly Piece[] {
  const special = (processor["special_tokens"] ?? {}) as Readonly<Record<string, { readonly ids: readonly number[] }>>;
  return ((processor[name] ?? []) as readonly TemplatePiece[]).map(({ SpecialToken, Sequence }): Piece =>
    Sequence === undefined
      ? { tokens: special[SpecialToken!.id]?.ids ?? [], type: SpecialToken!.type_id }
      : { text: Sequence.id === "A" ? 0 : 1, type: Sequence.type_id },
  );
}
