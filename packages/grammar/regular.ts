/**
 * Regular expressions with intersection and complement, by their derivatives (Brzozowski): what is left of an expression once a character was read
 * is an expression again, and there are finitely many of them. Expressions alike are one object. Knows no syntax and no automaton.
 */
import { anyCharacter, CharacterSet } from "./characters.js";

/** More than the largest code of a character. */
const codes = 0x110000;

type Kind = "set" | "sequence" | "or" | "and" | "not" | "repeat";

/** An expression. */
export interface Regular {
  readonly kind: Kind;
  readonly id: number;
  /** True if it has the empty text. */
  readonly nullable: boolean;
  readonly set?: CharacterSet;
  readonly parts: readonly Regular[];
  readonly least: number;
  readonly most: number;
}

/** Makes expressions, and takes what they cost off a budget. */
export class Regulars {
  readonly #known = new Map<string, Regular>();
  /** What is left of expressions after characters: parts are asked for again and again, in others. */
  readonly #after = new Map<number, Regular>();
  readonly #refuse: () => never;
  #left: number;
  /** No text at all. */
  readonly none: Regular;
  /** The empty text. */
  readonly empty: Regular;
  /** Any character. */
  readonly any: Regular;
  /** Any text. */
  readonly all: Regular;

  /** `steps`: how many there may be; `refuse` is called when there are more. */
  constructor(steps: number, refuse: () => never) {
    this.#left = steps;
    this.#refuse = refuse;
    this.none = this.set(new CharacterSet([]));
    this.empty = this.#make("repeat", true, [this.none], 0, 0);
    this.any = this.set(anyCharacter);
    this.all = this.#make("repeat", true, [this.any], 0, Infinity);
  }

  /** Takes steps off the budget. */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) this.#refuse();
  }

  set(set: CharacterSet): Regular {
    return this.#intern(`set ${set.key}`, { kind: "set", nullable: false, set, parts: [], least: 0, most: 0 });
  }

  /** A text letter by letter. */
  text(text: string): Regular {
    const letters = Array.from(text, (each) => {
      const code = each.codePointAt(0)!;
      return this.set(new CharacterSet([[code, code]]));
    });
    return this.sequence(...letters);
  }

  sequence(...parts: readonly Regular[]): Regular {
    return parts.reduceRight((rest, part) => this.#pair(part, rest), this.empty);
  }

  #pair(first: Regular, rest: Regular): Regular {
    if (first === this.none || rest === this.none) return this.none;
    if (first === this.empty) return rest;
    if (rest === this.empty) return first;
    if (first.kind === "sequence") return this.#pair(first.parts[0], this.#pair(first.parts[1], rest));
    if (first === this.all && rest === this.all) return rest;
    return this.#make("sequence", first.nullable && rest.nullable, [first, rest]);
  }

  or(...options: readonly Regular[]): Regular {
    return this.#joined("or", options, this.none, this.all);
  }

  and(...parts: readonly Regular[]): Regular {
    return this.#joined("and", parts, this.all, this.none);
  }

  not(part: Regular): Regular {
    if (part === this.none) return this.all;
    if (part === this.all) return this.none;
    return part.kind === "not" ? part.parts[0] : this.#make("not", !part.nullable, [part]);
  }

  repeat(part: Regular, least: number, most: number): Regular {
    if (most === 0 || part === this.empty) return this.empty;
    if (part === this.none) return least === 0 ? this.empty : this.none;
    if (least === 1 && most === 1) return part;
    if (part.kind === "repeat" && part.least === 0 && part.most === Infinity) return part;
    return this.#make("repeat", least === 0 || part.nullable, [part], part.nullable ? 0 : least, most);
  }

  /** What is left of an expression after a character. */
  after(part: Regular, code: number): Regular {
    this.spend(1);
    if (part.kind === "set") return part.set!.has(code) ? this.empty : this.none;
    const key = part.id * codes + code;
    let left = this.#after.get(key);
    if (left === undefined) this.#after.set(key, (left = this.#derived(part, code)));
    return left;
  }

  #derived(part: Regular, code: number): Regular {
    switch (part.kind) {
      case "set":
        return this.none;
      case "sequence": {
        const [first, rest] = part.parts;
        const begun = this.#pair(this.after(first, code), rest);
        return first.nullable ? this.or(begun, this.after(rest, code)) : begun;
      }
      case "or":
        return this.or(...part.parts.map((each) => this.after(each, code)));
      case "and":
        return this.and(...part.parts.map((each) => this.after(each, code)));
      case "not":
        return this.not(this.after(part.parts[0], code));
      case "repeat": {
        if (part === this.empty) return this.none;
        const [body] = part.parts;
        return this.#pair(this.after(body, code), this.repeat(body, Math.max(0, part.least - 1), part.most - 1));
      }
      default:
        return part.kind satisfies never;
    }
  }

  /** All sets in an expression. */
  setsOf(part: Regular): readonly CharacterSet[] {
    const seen = new Set<Regular>();
    const visit = (each: Regular): void => {
      if (seen.has(each)) return;
      seen.add(each);
      each.parts.forEach(visit);
    };
    visit(part);
    return [...seen].flatMap(({ set }) => (set === undefined || set.ranges.length === 0 ? [] : [set]));
  }

  /** `or` and `and`: in any order, each part once; `idle` says nothing in it and `decisive` all. */
  #joined(kind: "or" | "and", given: readonly Regular[], idle: Regular, decisive: Regular): Regular {
    const flat = new Set(given.flatMap((each) => (each.kind === kind ? each.parts : [each])));
    flat.delete(idle);
    this.spend(flat.size);
    if (flat.has(decisive)) return decisive;
    const parts = [...flat].sort((a, b) => a.id - b.id);
    if (parts.length < 2) return parts[0] ?? idle;
    const isNullable = ({ nullable }: Regular): boolean => nullable;
    const nullable = kind === "or" ? parts.some(isNullable) : parts.every(isNullable);
    if (kind === "and" && parts.includes(this.empty)) return nullable ? this.empty : this.none;
    return this.#make(kind, nullable, parts);
  }

  #make(kind: Kind, nullable: boolean, parts: readonly Regular[], least = 0, most = 0): Regular {
    const key = `${kind} ${least} ${most} ${parts.map(({ id }) => id).join()}`;
    return this.#intern(key, { kind, nullable, parts, least, most });
  }

  #intern(key: string, made: Omit<Regular, "id">): Regular {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.spend(1);
    const regular = { ...made, id: this.#known.size };
    this.#known.set(key, regular);
    return regular;
  }
}
