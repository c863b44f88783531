/**
 * Patterns of JSON Schema → regular expressions of whole texts. A pattern is one of ECMA-262 with the flag u, and is looked for anywhere in a text:
 * anchors, alternatives and lookaheads mean what they mean there.
 */
import { parsePattern, type Tree } from "#insitu/text/patterns/parse-pattern.js";
import { freshProperties, readSet } from "./characters.js";
import { limits } from "./limits.js";
import { type Regular, Regulars } from "./regular.js";

/** What follows on a part of a pattern, up to the text's end: other at the text's first place, where `^` holds. */
type Rest = (atStart: boolean) => Regular;

/** Signs that need no escape, whose escapes the flag u does not allow; a hyphen needs one inside of a class. */
const idle = /[!"#%&',:;<=>@`~ _]/;

/** A pattern as the flag u has it. */
function withFlagU(given: string, refuse: (why: string) => never): string {
  const plain = (text: string, isIdle: RegExp): string =>
    text.replaceAll(/\\([^])/gu, (escape, sign: string) => (isIdle.test(sign) ? sign : escape));
  const source =
    isPattern(given) === true
      ? given
      : given.replaceAll(/\[(?:\\[^]|[^\]\\])*\]|\\[^]/gu, (part) =>
          plain(part, part.startsWith("[") ? idle : new RegExp(`${idle.source}|-`)),
        );
  const why = isPattern(source);
  return why === true ? source : refuse(`has a pattern that is none: ${why}`);
}

function isPattern(source: string): true | string {
  try {
    new RegExp(source, "u");
    return true;
  } catch (error) {
    return String(error);
  }
}

/** The texts that a pattern is found in. `refuse` throws, with the reason why this pattern cannot be had. */
export function patternTexts(regulars: Regulars, given: string, refuse: (why: string) => never): Regular {
  const source = withFlagU(given, refuse);
  const why = (_: string, what: string): never => refuse(`has a pattern that ${what}`);
  const { tree } = parsePattern(source, why);
  const reader = new PatternReader(regulars, refuse);
  const after: Rest = () => regulars.all;
  const later = regulars.sequence(regulars.any, regulars.all, reader.read(tree, after, false));
  return regulars.or(reader.read(tree, after, true), later);
}

/** Looks for patterns in texts, character by character and never back: what all of it costs is bounded. */
export class PatternMatcher {
  readonly #regulars: Regulars;
  readonly #refuse: (why: string) => never;
  readonly #known = new Map<string, Regular>();

  /** `refuse` throws, for a pattern that cannot be had and once all takes too long. */
  constructor(refuse: (why: string) => never) {
    this.#refuse = refuse;
    this.#regulars = new Regulars(limits.steps, () => refuse(`has patterns that take more than ${limits.steps} steps`));
  }

  /** True if a pattern is found in a text. */
  readonly matches = (pattern: string, text: string): boolean => {
    let left = this.#known.get(pattern);
    if (left === undefined) this.#known.set(pattern, (left = patternTexts(this.#regulars, pattern, this.#refuse)));
    for (const each of text) left = this.#regulars.after(left, each.codePointAt(0)!);
    return left.nullable;
  };
}

class PatternReader {
  readonly #regulars: Regulars;
  readonly #refuse: (why: string) => never;

  constructor(regulars: Regulars, refuse: (why: string) => never) {
    this.#regulars = regulars;
    this.#refuse = refuse;
  }

  /** A part and all that follows on it. */
  read(tree: Tree, rest: Rest, atStart: boolean): Regular {
    const regulars = this.#regulars;
    regulars.spend(1);
    if (isPlain(tree)) return this.#joined(this.#plain(tree), rest, atStart);
    switch (tree.kind) {
      case "sequence": {
        const from = (part: number): Rest =>
          part === tree.parts.length ? rest : once((start) => this.read(tree.parts[part], from(part + 1), start));
        return from(0)(atStart);
      }
      case "choice":
        return regulars.or(...tree.options.map((option) => this.read(option, rest, atStart)));
      case "group":
        return this.read(tree.body, rest, atStart);
      case "edge":
        if (tree.end) return regulars.and(regulars.empty, rest(atStart));
        return atStart ? rest(true) : regulars.none;
      case "look": {
        if (tree.behind) return this.#refuse("has a pattern that looks behind, which is not supported");
        const ahead = this.read(tree.body, () => regulars.all, atStart);
        return regulars.and(tree.negated ? regulars.not(ahead) : ahead, rest(atStart));
      }
      case "repeat": {
        if (tree.most > limits.repeatedEdges)
          return this.#refuse(
            `has a pattern that repeats an anchor or a lookahead more than ${limits.repeatedEdges} times`,
          );
        const from = (count: number): Rest => {
          if (count === tree.most) return rest;
          const more: Rest = (start) => this.read(tree.body, from(count + 1), start);
          return once((start) => (count < tree.least ? more(start) : regulars.or(rest(start), more(start))));
        };
        return from(0)(atStart);
      }
      default:
        return this.#plain(tree);
    }
  }

  /** A part without anchors, and what follows: no longer at the start once it has a character. */
  #joined(part: Regular, rest: Rest, atStart: boolean): Regular {
    const regulars = this.#regulars;
    if (!atStart || !part.nullable || rest(true) === rest(false))
      return regulars.sequence(part, rest(atStart && part === regulars.empty));
    const some = regulars.and(part, regulars.sequence(regulars.any, regulars.all));
    return regulars.or(rest(true), regulars.sequence(some, rest(false)));
  }

  #plain(tree: Tree): Regular {
    const regulars = this.#regulars;
    regulars.spend(1);
    switch (tree.kind) {
      case "set":
        regulars.spend(limits.stepsOfProperty * freshProperties(tree.source));
        return regulars.set(readSet(tree.source));
      case "sequence":
        return regulars.sequence(...tree.parts.map((part) => this.#plain(part)));
      case "choice":
        return regulars.or(...tree.options.map((option) => this.#plain(option)));
      case "group":
        return this.#plain(tree.body);
      case "repeat":
        return regulars.repeat(this.#plain(tree.body), tree.least, tree.most);
      default:
        return this.#refuse("has a pattern with an anchor where none can be");
    }
  }
}

/** True if nothing in it asks what stands around it. */
function isPlain(tree: Tree): boolean {
  switch (tree.kind) {
    case "set":
      return true;
    case "sequence":
      return tree.parts.every(isPlain);
    case "choice":
      return tree.options.every(isPlain);
    case "group":
    case "repeat":
      return isPlain(tree.body);
    default:
      return false;
  }
}

/** Both answers, made when they are asked for. */
function once(make: Rest): Rest {
  const made = new Map<boolean, Regular>();
  return (atStart) => {
    let found = made.get(atStart);
    if (found === undefined) made.set(atStart, (found = make(atStart)));
    return found;
  };
}
