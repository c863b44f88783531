/** Constraints by rules: a rule becomes a grammar once, and each text is followed through it token by token. */
import { InsituError } from "#insitu/base/error.js";
import { Recent } from "#insitu/base/recent.js";
import type { Grammars, GrammarVocabulary, HeldConstraint, TextPart, TextRule } from "#insitu/choice/constraint.js";
import { type Automaton, TextNotBeginning, TextUntil, TextWithout } from "./automaton.js";
import { grammarPart } from "./grammar-rules.js";
import { type GrammarPart, Machine, type Situation } from "./machine.js";
import { checkSize, readSchema } from "./schema.js";
import { later, ValueGrammars } from "./values.js";
import { VocabularyTree } from "./vocabulary.js";

/** Rules that are kept, the bytes that they may take together, and the situations of texts whose tokens are remembered. */
const kept = { rules: 64, ruleBytes: 8 * 2 ** 20, situations: 4096 } as const;

/** About what a character of a rule comes to, as the rule is kept: its schemas as they were read, and the parts of its grammar. */
const bytesOfCharacter = 40;

/** About what a situation takes beside its mask. */
const situationBytes = 3072;

/** Makes grammars for a vocabulary. */
export async function makeGrammars(vocabulary: GrammarVocabulary): Promise<Grammars> {
  if (vocabulary.kind === "raw")
    throw new InsituError(
      "invalid-argument",
      "this model has no structured output: its tokenizer has neither bytes nor letters for spaces",
    );
  return new RuleGrammars(await VocabularyTree.of(vocabulary));
}

/** A rule that was made a grammar of. */
interface KeptRule {
  readonly key: string;
  readonly machine: Machine;
  readonly bytes: number;
}

class RuleGrammars implements Grammars {
  readonly #tree: VocabularyTree;
  readonly #rules = new Recent<KeptRule>(kept.rules);
  #line: Promise<unknown> = Promise.resolve();

  constructor(tree: VocabularyTree) {
    this.#tree = tree;
  }

  async constrain(rule: TextRule): Promise<HeldConstraint> {
    checkSize(rule);
    const key = JSON.stringify(rule);
    const known = this.#rules.use((each) => each.key === key) ?? (await this.#inLine(rule, key));
    return this.#constraint(known.machine);
  }

  /** Makes one rule at a time: each takes a little of every turn of the event loop, and others want theirs. */
  #inLine(rule: TextRule, key: string): Promise<KeptRule> {
    const made = this.#line.then(() => this.#rules.use((each) => each.key === key) ?? this.#make(rule, key));
    this.#line = made.catch(() => {});
    return made;
  }

  #constraint(machine: Machine): GrammarConstraint {
    return new GrammarConstraint(machine, this.#tree, () => this.#forgetSome());
  }

  async #make(rule: TextRule, key: string): Promise<KeptRule> {
    const values = new ValueGrammars();
    const machine = new Machine(partOf(rule, values));
    await values.makeAll();
    // What cannot even begin is refused now.
    this.#constraint(machine).fillMask(new Uint32Array(this.#tree.words));
    const made = { key, machine, bytes: values.bytes + bytesOfCharacter * key.length };
    this.#rules.add(made);
    let bytes = 0;
    // From the one that was used last on; that one stays in any case.
    this.#rules.drop((each) => (bytes += each.bytes) > kept.ruleBytes && each !== made);
    return made;
  }

  /** Forgets what was found out, where it has become much: it is found again where it is needed. */
  #forgetSome(): void {
    let bytes = 0;
    for (const { machine } of this.#rules) bytes += machine.bytes;
    const most = kept.situations * (situationBytes + 4 * this.#tree.words);
    if (bytes > most) for (const { machine } of this.#rules) machine.forget();
  }
}

/** A rule as a grammar. */
function partOf(rule: TextRule, values: ValueGrammars): GrammarPart {
  switch (rule.kind) {
    case "schema":
      return values.value(readSchema(rule.schema));
    case "object":
      return values.anyObject;
    case "regex":
      return values.pattern(rule.pattern);
    case "grammar":
      return grammarPart(rule.grammar, values);
    case "choice":
      return values.text(...rule.texts);
    case "structure":
      return structure(rule.part, values);
    default:
      return rule satisfies never;
  }
}

/** A part of a text as a grammar. */
function structure(part: TextPart, values: ValueGrammars): GrammarPart {
  if (typeof part === "string") return values.text(part);
  if ("schema" in part) return values.value(readSchema(part.schema));
  if ("object" in part) return values.anyObject;
  if ("regex" in part) return values.pattern(part.regex);
  if ("grammar" in part) return grammarPart(part.grammar, values);
  if ("until" in part) {
    const until: Automaton = new TextUntil(part.until, true);
    const { without = [] } = part;
    return { kind: "automaton", automaton: without.reduce((text, mark) => new TextWithout(text, mark), until) };
  }
  if ("without" in part) return { kind: "automaton", automaton: new TextUntil(part.without, false) };
  if ("notBeginning" in part) return { kind: "automaton", automaton: new TextNotBeginning(part.notBeginning) };
  if ("sequence" in part) return { kind: "sequence", parts: part.sequence.map((each) => structure(each, values)) };
  if ("choice" in part) return { kind: "choice", options: part.choice.map((each) => structure(each, values)) };
  const { repeat, between, least = 1 } = part;
  const once = structure(repeat, values);
  const again = between === "" ? [once] : [values.text(between), once];
  const none: GrammarPart = { kind: "sequence", parts: [] };
  const more: GrammarPart = later(() => ({
    kind: "choice",
    options: [none, { kind: "sequence", parts: [...again, more] }],
  }));
  const all: GrammarPart = { kind: "sequence", parts: [once, more] };
  return least === 1 ? all : { kind: "choice", options: [none, all] };
}

/** What is known of the tokens that may come at a situation. */
interface Allowed {
  readonly mask: Uint32Array;
  readonly isAll: boolean;
}

/** Where a text is that has ended. */
const over: Situation = { places: [], mayEnd: false, next: [], byStates: new Map() };

/** One text kept to a grammar. */
class GrammarConstraint implements HeldConstraint {
  readonly #machine: Machine;
  readonly #tree: VocabularyTree;
  readonly #found: () => void;
  /** Where the text is after each of its tokens; undefined once it is released. */
  #path: Situation[] | undefined;

  /** `found`: called when something was found out that takes memory. */
  constructor(machine: Machine, tree: VocabularyTree, found: () => void) {
    this.#machine = machine;
    this.#tree = tree;
    this.#found = found;
    this.#path = [machine.start];
  }

  fillMask(mask: Uint32Array): boolean {
    const at = this.#path?.at(-1);
    if (at === undefined) return false;
    const allowed = this.#allowed(at);
    mask.fill(0);
    mask.set(allowed.mask.subarray(0, mask.length));
    return !allowed.isAll;
  }

  accept(token: number): boolean {
    const path = this.#path;
    if (path === undefined) return true;
    const at = path.at(-1)!;
    const next = this.#tree.isEnd(token) ? (at.mayEnd ? over : undefined) : this.#tree.follow(this.#machine, at, token);
    if (next === undefined) return false;
    path.push(next);
    return true;
  }

  rollback(count: number): void {
    const path = this.#path;
    if (path !== undefined) path.length = Math.max(1, path.length - count);
  }

  allows(text: string): boolean {
    let at: Situation | null = this.#machine.start;
    for (const byte of new TextEncoder().encode(text)) if ((at = this.#machine.step(at, byte)) === null) return false;
    return at.mayEnd;
  }

  get mayEnd(): boolean {
    return this.#path?.at(-1)?.mayEnd ?? true;
  }

  get terminated(): boolean {
    const at = this.#path?.at(-1);
    return at !== undefined && at.mayEnd && at.places.length === 0;
  }

  release(): void {
    this.#path = undefined;
  }

  #allowed(at: Situation): Allowed {
    const known = at.note as Allowed | undefined;
    if (known !== undefined) return known;
    const mask = this.#tree.mask(this.#machine, at);
    const found = { mask, isAll: this.#tree.isAll(mask) };
    this.#machine.note(at, found, 4 * mask.length);
    this.#found();
    return found;
  }
}
