/**
 * Schemas → the grammar of their JSON. Texts are compact: at most one blank stands at each place, and no line ends. Properties come in the order in
 * which the schema lists them.
 */
import { InsituError } from "#insitu/base/error.js";
import { pause } from "#insitu/engine/pause.js";
import { type Automaton, Literals, TextAutomaton } from "./automaton.js";
import type { CharacterSet } from "./characters.js";
import type { Encoding } from "./encoding.js";
import { limits, refusal } from "./limits.js";
import type { GrammarPart } from "./machine.js";
import { commonMultiple, MultipleAutomaton } from "./multiples.js";
import { type NumberBounds, numberTexts } from "./numbers.js";
import { patternTexts } from "./pattern.js";
import { type Regular, Regulars } from "./regular.js";
import type { ArrayRules, Member, NumberRules, ObjectRules, ReadSchema, StringRules } from "./read-schema.js";

const sequence = (...parts: readonly GrammarPart[]): GrammarPart => ({ kind: "sequence", parts });
const choice = (...options: readonly GrammarPart[]): GrammarPart => ({ kind: "choice", options });
const automatonPart = (automaton: Automaton): GrammarPart => ({ kind: "automaton", automaton });

/** A part that is made when it is come to. */
export function later(make: () => GrammarPart): GrammarPart {
  let made: GrammarPart | undefined;
  return { kind: "later", part: () => (made ??= make()) };
}

/** Parts that depend on a number, each made once. */
function numbered(make: (number: number) => GrammarPart): (number: number) => GrammarPart {
  const made = new Map<number, GrammarPart>();
  return (number) => {
    let found = made.get(number);
    if (found === undefined) made.set(number, (found = make(number)));
    return found;
  };
}

const anyText: StringRules = { patterns: [], without: [], minLength: 0, maxLength: Infinity };

/** Properties whatever they are. */
const anyProperties: ObjectRules = {
  kind: "open",
  members: [{ names: { kind: "any" }, without: [], values: { kind: "any" } }],
  least: 0,
  most: Infinity,
};

/** How long automata are made before events are served. */
const mostMilliseconds = 5;

/** The error for a regular expression that cannot be enforced. */
const patternRefusal = (why: string): InsituError =>
  new InsituError("invalid-argument", `the regular expression cannot be enforced: it ${why}`);

/** An automaton that is to be made, and where its expression comes from. */
interface PendingAutomaton {
  readonly automaton: TextAutomaton;
  /** In the schema; undefined for a regular expression that is the rule itself. */
  readonly path: string | undefined;
  /** True where there need be no text at all: names by several patterns. */
  readonly mayBeNone: boolean;
  readonly expression: (regulars: Regulars) => Regular;
}

/** Makes the grammars of one rule's schemas. What they have in common is made once, and what they cost is counted together. */
export class ValueGrammars {
  readonly #automata = new Map<string, PendingAutomaton>();
  /** Automata that are made of others, once those are. */
  readonly #derived: (() => void)[] = [];
  readonly #parts = new Map<ReadSchema, GrammarPart>();
  readonly #referred: ReadSchema[] = [];
  #bytes = 0;

  readonly #blank = choice(sequence(), this.text(" "));
  /** What closes, with a blank before it. */
  readonly #close = numbered((code) => sequence(this.#blank, this.text(String.fromCharCode(code))));
  readonly #comma = sequence(this.text(","), this.#blank);
  readonly #colon = sequence(this.text(":"), this.#blank);
  #anyValue: GrammarPart | undefined;

  /** Makes all automata, with events served meanwhile; throws for patterns and bounds that cannot be had. */
  async makeAll(): Promise<void> {
    // Here and not in a field: what the grammar keeps hold of does not keep all expressions.
    const regulars = new Regulars(limits.steps, () => {
      throw refusal("", `takes more than ${limits.steps} steps to make automata of its patterns, formats and bounds`);
    });
    let turn = performance.now();
    const breathe = async (): Promise<void> => {
      if (performance.now() - turn < mostMilliseconds) return;
      await pause();
      turn = performance.now();
    };
    for (const { automaton, path, mayBeNone, expression } of this.#automata.values()) {
      await breathe();
      const isThere = await automaton.make(regulars, expression(regulars), breathe);
      const why = "allows no value at all";
      if (!isThere && !mayBeNone) throw path === undefined ? patternRefusal(why) : refusal(path, why);
      this.#bytes += automaton.bytes;
    }
    for (const make of this.#derived) {
      await breathe();
      make();
    }
    this.#automata.clear();
    this.#derived.length = 0;
  }

  /** About what all of it takes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** One text, or one of several. */
  text(...texts: readonly string[]): GrammarPart {
    const literals = new Literals(texts);
    this.#bytes += literals.bytes;
    return automatonPart(literals);
  }

  /** One character of a set. */
  characters(set: CharacterSet): GrammarPart {
    return automatonPart(this.#automaton(`set ${set.key}`, "plain", "", (regulars) => regulars.set(set)));
  }

  /** Texts that a pattern matches from the first to the last character. */
  pattern(pattern: string): GrammarPart {
    const refuse = (why: string): never => {
      throw patternRefusal(why);
    };
    if (pattern.length > limits.pattern) refuse(`has more than ${limits.pattern} characters`);
    const texts = this.#automaton(JSON.stringify(pattern), "plain", undefined, (regulars) =>
      patternTexts(regulars, `^(?:${pattern})$`, refuse),
    );
    return automatonPart(texts);
  }

  /** JSON that a schema allows. */
  value(schema: ReadSchema): GrammarPart {
    const part = this.#part(schema);
    // What is referred to is refused now, not when a text comes to it.
    for (let target = this.#referred.pop(); target !== undefined; target = this.#referred.pop()) this.#part(target);
    return part;
  }

  /** Objects, whatever is in them. */
  get anyObject(): GrammarPart {
    return this.#object(anyProperties, "");
  }

  #part(schema: ReadSchema): GrammarPart {
    let part = this.#parts.get(schema);
    if (part === undefined) this.#parts.set(schema, (part = this.#make(schema)));
    return part;
  }

  #make(schema: ReadSchema): GrammarPart {
    switch (schema.kind) {
      case "any":
        return this.#any();
      case "reference":
        this.#referred.push(schema.to.schema!);
        return later(() => this.#part(schema.to.schema!));
      case "choice":
        return choice(...schema.options.map((option) => this.#part(option)));
      case "values":
        return this.text(...schema.values.map((value) => JSON.stringify(value)));
      case "typed":
        return this.#typed(schema.types, schema.path, schema.string, schema.number, schema.array, schema.object);
      default:
        return schema satisfies never;
    }
  }

  /** Any value: it refers to itself. */
  #any(): GrammarPart {
    if (this.#anyValue !== undefined) return this.#anyValue;
    let made: GrammarPart | undefined;
    this.#anyValue = later(() => made!);
    made = this.#typed(
      ["object", "array", "string", "number", "boolean", "null"],
      "",
      anyText,
      { bounds: {}, multiples: [] },
      { first: [], others: { kind: "any" }, least: 0, most: Infinity },
      anyProperties,
    );
    return this.#anyValue;
  }

  #typed(
    types: readonly string[],
    path: string,
    string: StringRules,
    number: NumberRules,
    array: ArrayRules,
    object: ObjectRules,
  ): GrammarPart {
    const byType: Readonly<Record<string, () => GrammarPart>> = {
      object: () => this.#object(object, path),
      array: () => this.#array(array),
      string: () => this.#string(string, path),
      number: () => this.#number({ isInteger: false, ...number.bounds }, number.multiples, path),
      integer: () => this.#number({ isInteger: true, ...number.bounds }, number.multiples, path),
      boolean: () => this.text("true", "false"),
      null: () => this.text("null"),
    };
    return choice(...types.map((type) => byType[type]()));
  }

  #string(rules: StringRules, path: string, mayBeNone = false): GrammarPart {
    const { patterns, without, minLength, maxLength } = rules;
    const quote = this.text('"');
    // What no pattern asks for may be escaped where it need not be.
    const encoding = patterns.length + without.length === 0 ? "free-string" : "string";
    const inside = maxLength <= limits.countedInside ? maxLength : Infinity;
    const key = JSON.stringify([patterns, without, minLength, String(maxLength)]);
    const text = this.#automaton(
      key,
      encoding,
      path,
      (regulars) => {
        const texts = (pattern: string): Regular =>
          patternTexts(regulars, pattern, (why) => {
            throw refusal(path, `${why}: ${JSON.stringify(pattern)}`);
          });
        return regulars.and(
          ...patterns.map(texts),
          ...without.map((pattern) => regulars.not(texts(pattern))),
          regulars.repeat(regulars.any, minLength, inside),
        );
      },
      { mayBeNone, most: inside === Infinity ? maxLength : Infinity },
    );
    return sequence(quote, automatonPart(text), quote);
  }

  #number(bounds: NumberBounds, multiples: readonly number[], path: string): GrammarPart {
    const decimals = this.#automaton(JSON.stringify(bounds), "plain", path, (regulars) =>
      numberTexts(regulars, bounds),
    );
    if (multiples.length === 0) return automatonPart(decimals);
    const refuse = (): never => {
      throw refusal(path, `has "multipleOf" ${multiples.join(" and ")}, which takes too many steps to check`);
    };
    const multiple = commonMultiple(multiples, limits.remainders) ?? refuse();
    const automaton = new MultipleAutomaton(decimals, multiple);
    this.#derived.push(() => {
      const isThere = automaton.make(limits.steps / 2) ?? refuse();
      if (!isThere) throw refusal(path, "allows no value at all");
      this.#bytes += automaton.bytes;
    });
    return automatonPart(automaton);
  }

  /** An automaton that is there once all were made. */
  #automaton(
    key: string,
    encoding: Encoding,
    path: string | undefined,
    make: (regulars: Regulars) => Regular,
    { mayBeNone = false, most = Infinity } = {},
  ): Automaton {
    const name = `${encoding} ${mayBeNone ? "?" : ""}${key}`;
    let pending = this.#automata.get(name);
    if (pending === undefined) {
      pending = { automaton: new TextAutomaton(encoding, most), path, mayBeNone, expression: make };
      this.#automata.set(name, pending);
    }
    return pending.automaton;
  }

  #array(rules: ArrayRules): GrammarPart {
    const { first, others, least, most, distinct } = rules;
    if (distinct !== undefined) return sequence(this.text("["), this.#some(distinct, least, most));
    const end = this.#close(0x5d);
    const element = (at: number): GrammarPart => this.#part(at < first.length ? first[at] : (others as ReadSchema));
    // From here on one element is like the other.
    const steady = Math.max(first.length, most === Infinity ? Math.max(1, least) : Infinity);
    const after: (count: number) => GrammarPart = numbered((count) =>
      later(() => {
        const more = (): GrammarPart =>
          sequence(count === 0 ? this.#blank : this.#comma, element(count), after(Math.min(count + 1, steady)));
        if (count >= most) return end;
        return count < least ? more() : choice(end, more());
      }),
    );
    // Schemas of elements are checked now, not when a text comes to them.
    for (let at = 0; at < Math.min(most, first.length + (others === false ? 0 : 1)); at++) element(at);
    return sequence(this.text("["), after(0));
  }

  #object(rules: ObjectRules, path: string): GrammarPart {
    const begin = this.text("{");
    return rules.kind === "closed" ? sequence(begin, this.#listed(rules)) : sequence(begin, this.#others(rules, path));
  }

  /** Some of these values, in their order, and the end. */
  #some(values: readonly unknown[], least: number, most: number): GrammarPart {
    const members = values.map((value) => ({ part: this.text(JSON.stringify(value)), isRequired: false }));
    return this.#inOrder(members, least, most, this.#close(0x5d));
  }

  /** The properties that are listed, in their order, and the end. */
  #listed({ properties, least, most }: ObjectRules & { kind: "closed" }): GrammarPart {
    const members = properties.map(({ name, schema, isRequired }) => ({
      part: sequence(this.text(JSON.stringify(name)), this.#colon, this.#part(schema)),
      isRequired,
    }));
    return this.#inOrder(members, least, most, this.#close(0x7d));
  }

  /** Those that must be there and some of the others, in their order, so many of them, and the end. */
  #inOrder(
    members: readonly { readonly part: GrammarPart; readonly isRequired: boolean }[],
    least: number,
    most: number,
    end: GrammarPart,
  ): GrammarPart {
    const { length } = members;
    /** How many must still be there, from a place on. */
    const needed = Array<number>(length + 1).fill(0);
    for (let at = length - 1; at >= 0; at--) needed[at] = needed[at + 1] + (members[at].isRequired ? 1 : 0);
    // From how many on it makes no difference how many there are.
    const steady = most < length ? length : Math.max(1, least);
    const width = length + 1;
    const after: (state: number) => GrammarPart = numbered((state) =>
      later(() => {
        const [count, from] = [Math.floor(state / width), state % width];
        const picks: GrammarPart[] = [];
        for (let at = from; at < length; at++) {
          const next = count + 1;
          const fits = next + needed[at + 1] <= most && next + length - at - 1 >= least;
          if (fits) picks.push(sequence(members[at].part, after(Math.min(next, steady) * width + at + 1)));
          if (members[at].isRequired) break;
        }
        const more = picks.length === 0 ? [] : [sequence(count === 0 ? this.#blank : this.#comma, choice(...picks))];
        return choice(...(count >= least && needed[from] === 0 ? [end] : []), ...more);
      }),
    );
    return after(0);
  }

  /** Any properties, by their names and values, and the end. */
  #others({ members, least, most }: ObjectRules & { kind: "open" }, path: string): GrammarPart {
    const end = this.#close(0x7d);
    const parts = members.flatMap((each) => this.#member(each, path));
    if (parts.length === 0) return end;
    const member = parts.length === 1 ? parts[0] : choice(...parts);
    const steady = most === Infinity ? Math.max(1, least) : Infinity;
    const after: (count: number) => GrammarPart = numbered((count) =>
      later(() => {
        const more = (): GrammarPart =>
          sequence(count === 0 ? this.#blank : this.#comma, member, after(Math.min(count + 1, steady)));
        if (count >= most) return end;
        return count < least ? more() : choice(end, more());
      }),
    );
    return after(0);
  }

  #member({ names, without, values }: Member, path: string): readonly GrammarPart[] {
    const name = this.#name(names, without, path);
    return name === undefined ? [] : [sequence(name, this.#colon, this.#part(values))];
  }

  /** The names that a schema allows, in which none of some patterns is found. */
  #name(names: ReadSchema, without: readonly string[], path: string): GrammarPart | undefined {
    switch (names.kind) {
      case "any":
        return this.#string({ ...anyText, without }, path, without.length > 0);
      case "reference":
        return this.#name(names.to.schema!, without, path);
      case "choice": {
        const options = names.options.flatMap((option) => this.#name(option, without, path) ?? []);
        return options.length === 0 ? undefined : choice(...options);
      }
      case "values": {
        const texts = names.values.filter((value) => typeof value === "string");
        return texts.length === 0 ? undefined : this.text(...texts.map((text) => JSON.stringify(text)));
      }
      case "typed":
        return names.types.includes("string") ? this.#string({ ...names.string, without }, path, true) : undefined;
      default:
        return names satisfies never;
    }
  }
}
