/** Rules of a grammar → parts that texts are followed through. A rule that begins with itself, or never ends, is refused. */
import { readSet } from "./characters.js";
import { grammarRefusal, readGrammar, type RulePart } from "./gbnf.js";
import type { GrammarPart } from "./machine.js";
import { later, type ValueGrammars } from "./values.js";

const nothing: GrammarPart = { kind: "sequence", parts: [] };

/** The texts of the rule "root". */
export function grammarPart(source: string, values: ValueGrammars): GrammarPart {
  const rules = readGrammar(source);
  if (!rules.has("root")) throw grammarRefusal('there is no rule "root", where texts begin');
  for (const [name, part] of rules)
    for (const each of namesIn(part))
      if (!rules.has(each)) throw grammarRefusal(`the rule "${name}" refers to "${each}", which is not there`);
  requireEnds(rules);
  requireNoLeftRecursion(rules);
  return new RuleParts(rules, values).rule("root");
}

class RuleParts {
  readonly #rules: ReadonlyMap<string, RulePart>;
  readonly #values: ValueGrammars;
  readonly #made = new Map<string, GrammarPart>();
  readonly #sets = new Map<string, GrammarPart>();

  constructor(rules: ReadonlyMap<string, RulePart>, values: ValueGrammars) {
    this.#rules = rules;
    this.#values = values;
  }

  rule(name: string): GrammarPart {
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    let made: GrammarPart | undefined;
    this.#made.set(
      name,
      later(() => made!),
    );
    made = this.#part(this.#rules.get(name)!);
    return made;
  }

  #part(of: RulePart): GrammarPart {
    switch (of.kind) {
      case "text":
        return of.text === "" ? nothing : this.#values.text(of.text);
      case "set":
        return this.#set(of.source);
      case "rule":
        return this.rule(of.name);
      case "sequence":
        return { kind: "sequence", parts: of.parts.map((each) => this.#part(each)) };
      case "choice":
        return { kind: "choice", options: of.options.map((each) => this.#part(each)) };
      case "repeat":
        return this.#repeat(this.#part(of.body), of.least, of.most);
      default:
        return of satisfies never;
    }
  }

  #set(source: string): GrammarPart {
    let found = this.#sets.get(source);
    if (found === undefined) this.#sets.set(source, (found = this.#values.characters(readSet(source))));
    return found;
  }

  /** So many in a row. Each place in the row is one thing, however often it is come to. */
  #repeat(body: GrammarPart, least: number, most: number): GrammarPart {
    const places = new Map<number, GrammarPart>();
    const after = (count: number): GrammarPart => {
      const at = most === Infinity ? Math.min(count, least) : count;
      let found = places.get(at);
      if (found === undefined) {
        const more = later(() => ({ kind: "sequence", parts: [body, after(at + 1)] }));
        found = at >= most ? nothing : at < least ? more : { kind: "choice", options: [nothing, more] };
        places.set(at, found);
      }
      return found;
    };
    return after(0);
  }
}

function namesIn(part: RulePart): readonly string[] {
  if (part.kind === "rule") return [part.name];
  if (part.kind === "sequence") return part.parts.flatMap(namesIn);
  if (part.kind === "choice") return part.options.flatMap(namesIn);
  return part.kind === "repeat" ? namesIn(part.body) : [];
}

/** The names for which something holds, found from those that are known to. */
function fixpoint(
  rules: ReadonlyMap<string, RulePart>,
  holds: (part: RulePart, known: ReadonlySet<string>) => boolean,
): Set<string> {
  const known = new Set<string>();
  for (let before = -1; before < known.size;) {
    before = known.size;
    for (const [name, part] of rules) if (!known.has(name) && holds(part, known)) known.add(name);
  }
  return known;
}

/** Throws for a rule whose texts have no end. */
function requireEnds(rules: ReadonlyMap<string, RulePart>): void {
  const mayEnd = (part: RulePart, known: ReadonlySet<string>): boolean => {
    if (part.kind === "rule") return known.has(part.name);
    if (part.kind === "sequence") return part.parts.every((each) => mayEnd(each, known));
    if (part.kind === "choice") return part.options.some((each) => mayEnd(each, known));
    if (part.kind === "set") return readSet(part.source).ranges.length > 0;
    return part.kind !== "repeat" || part.least === 0 || mayEnd(part.body, known);
  };
  const ended = fixpoint(rules, mayEnd);
  const endless = [...rules.keys()].find((name) => !ended.has(name));
  if (endless !== undefined) throw grammarRefusal(`the rule "${endless}" refers to itself without end`);
}

/** Throws for a rule that comes to itself before any character. */
function requireNoLeftRecursion(rules: ReadonlyMap<string, RulePart>): void {
  const mayBeEmpty = (part: RulePart, known: ReadonlySet<string>): boolean => {
    if (part.kind === "rule") return known.has(part.name);
    if (part.kind === "sequence") return part.parts.every((each) => mayBeEmpty(each, known));
    if (part.kind === "choice") return part.options.some((each) => mayBeEmpty(each, known));
    if (part.kind === "repeat") return part.least === 0 || mayBeEmpty(part.body, known);
    return part.kind === "text" && part.text === "";
  };
  const empty = fixpoint(rules, mayBeEmpty);
  /** The rules that a part may begin with. */
  const first = (part: RulePart): readonly string[] => {
    if (part.kind === "rule") return [part.name];
    if (part.kind === "choice") return part.options.flatMap(first);
    if (part.kind === "repeat") return first(part.body);
    if (part.kind !== "sequence") return [];
    const solid = part.parts.findIndex((each) => !mayBeEmpty(each, empty));
    return part.parts.slice(0, solid < 0 ? undefined : solid + 1).flatMap(first);
  };
  for (const name of rules.keys()) {
    const seen = new Set<string>();
    const open = [...first(rules.get(name)!)];
    for (let each = open.pop(); each !== undefined; each = open.pop()) {
      if (each === name)
        throw grammarRefusal(`the rule "${name}" begins with itself: write what repeats with * or + behind it`);
      if (seen.has(each)) continue;
      seen.add(each);
      open.push(...first(rules.get(each)!));
    }
  }
}
