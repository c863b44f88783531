/**
 * Schemas → the grammar of their JSON. Texts are compact: at most one blank stands at each place, and no line ends. Properties come in the order in
 * which the schema lists them.
 */
import { pause } from "#insitu/engine/pause.js";
import { type Automaton, Literals, TextAutomaton } from "./automaton.js";
import type { Encoding } from "./encoding.js";
import { limits, refusal } from "./limits.js";
import type { GrammarPart } from "./machine.js";
import { type NumberBounds, numberTexts } from "./numbers.js";
import { patternTexts } from "./pattern.js";
import { type Regular, Regulars } from "./regular.js";
import type { ArrayRules, ObjectRules, ReadSchema, StringRules } from "./read-schema.js";

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

/** How long automata are made before events are served. */
const mostMilliseconds = 5;

/** An automaton that is to be made, and where its expression comes from. */
interface PendingAutomaton {
  readonly automaton: TextAutomaton;
  readonly path: string;
  readonly expression: (regulars: Regulars) => Regular;
}

/** Makes the grammars of one rule's schemas. What they have in common is made once, and what they cost is counted together. */
export class ValueGrammars {
  readonly #automata = new Map<string, PendingAutomaton>();
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
    for (const { automaton, path, expression } of this.#automata.values()) {
      await breathe();
      const isThere = await automaton.make(regulars, expression(regulars), breathe);
      if (!isThere) throw refusal(path, "allows no value at all");
      this.#bytes += automaton.bytes;
    }
    this.#automata.clear();
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

  /** JSON that a schema allows. */
  value(schema: ReadSchema): GrammarPart {
    const part = this.#part(schema);
    // What is referred to is refused now, not when a text comes to it.
    for (let target = this.#referred.pop(); target !== undefined; target = this.#referred.pop()) this.#part(target);
    return part;
  }

  /** Objects, whatever is in them. */
  get anyObject(): GrammarPart {
    return this.#object(
      { kind: "open", names: { kind: "any" }, values: { kind: "any" }, least: 0, most: Infinity },
      "",
    );
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
      { patterns: [], minLength: 0, maxLength: Infinity },
      {},
      { first: [], others: { kind: "any" }, least: 0, most: Infinity },
      { kind: "open", names: { kind: "any" }, values: { kind: "any" }, least: 0, most: Infinity },
    );
    return this.#anyValue;
  }

  #typed(
    types: readonly string[],
    path: string,
    string: StringRules,
    number: Readonly<Record<string, number>>,
    array: ArrayRules,
    object: ObjectRules,
  ): GrammarPart {
    const byType: Readonly<Record<string, () => GrammarPart>> = {
      object: () => this.#object(object, path),
      array: () => this.#array(array),
      string: () => this.#string(string, path),
      number: () => this.#number({ isInteger: false, ...number }, path),
      integer: () => this.#number({ isInteger: true, ...number }, path),
      boolean: () => this.text("true", "false"),
      null: () => this.text("null"),
    };
    return choice(...types.map((type) => byType[type]()));
  }

  #string(rules: StringRules, path: string): GrammarPart {
    const { patterns, minLength, maxLength } = rules;
    const quote = this.text('"');
    // What no pattern asks for may be escaped where it need not be.
    const encoding = patterns.length === 0 ? "free-string" : "string";
    const text = this.#automaton(JSON.stringify([patterns, minLength, String(maxLength)]), encoding, path, (regulars) =>
      regulars.and(
        ...patterns.map((pattern) =>
          patternTexts(regulars, pattern, (why) => {
            throw refusal(path, `${why}: ${JSON.stringify(pattern)}`);
          }),
        ),
        regulars.repeat(regulars.any, minLength, maxLength),
      ),
    );
    return sequence(quote, automatonPart(text), quote);
  }

  #number(bounds: NumberBounds, path: string): GrammarPart {
    return automatonPart(
      this.#automaton(JSON.stringify(bounds), "plain", path, (regulars) => numberTexts(regulars, bounds)),
    );
  }

  /** An automaton that is there once all were made. */
  #automaton(key: string, encoding: Encoding, path: string, make: (regulars: Regulars) => Regular): Automaton {
    const name = `${encoding} ${key}`;
    let pending = this.#automata.get(name);
    if (pending === undefined) {
      pending = { automaton: new TextAutomaton(encoding), path, expression: make };
      this.#automata.set(name, pending);
    }
    return pending.automaton;
  }

  #array({ first, others, least, most }: ArrayRules): GrammarPart {
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

  /** The properties that are listed, in their order, and the end. */
  #listed({ properties }: ObjectRules & { kind: "closed" }): GrammarPart {
    const end = this.#close(0x7d);
    const members = properties.map(({ name, schema }) =>
      sequence(this.text(JSON.stringify(name)), this.#colon, this.#part(schema)),
    );
    const lastRequired = properties.findLastIndex(({ isRequired }) => isRequired);
    /** One of the properties from a place on, and what follows. */
    const pick = numbered((from) =>
      later(() => {
        const required = properties.findIndex(({ isRequired }, at) => at >= from && isRequired);
        const to = required < 0 ? properties.length : required + 1;
        return choice(...members.slice(from, to).map((member, at) => sequence(member, after(from + at + 1))));
      }),
    );
    const after: (from: number) => GrammarPart = numbered((from) =>
      later(() => {
        const more = sequence(from === 0 ? this.#blank : this.#comma, pick(from));
        if (from === properties.length) return end;
        return from <= lastRequired ? more : choice(end, more);
      }),
    );
    return after(0);
  }

  /** Any properties, by their names and values, and the end. */
  #others({ names, values, least, most }: ObjectRules & { kind: "open" }, path: string): GrammarPart {
    const end = this.#close(0x7d);
    const name = values === false ? undefined : this.#name(names, path);
    if (values === false || name === undefined) return end;
    const member = sequence(name, this.#colon, this.#part(values));
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

  /** The names that a schema allows. */
  #name(names: ReadSchema, path: string): GrammarPart | undefined {
    switch (names.kind) {
      case "any":
        return this.#string({ patterns: [], minLength: 0, maxLength: Infinity }, path);
      case "reference":
        return this.#name(names.to.schema!, path);
      case "choice": {
        const options = names.options.flatMap((option) => this.#name(option, path) ?? []);
        return options.length === 0 ? undefined : choice(...options);
      }
      case "values": {
        const texts = names.values.filter((value) => typeof value === "string");
        return texts.length === 0 ? undefined : this.text(...texts.map((text) => JSON.stringify(text)));
      }
      case "typed":
        return names.types.includes("string") ? this.#string(names.string, path) : undefined;
      default:
        return names satisfies never;
    }
  }
}
