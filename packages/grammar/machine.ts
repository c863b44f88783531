/**
 * Follows texts through a grammar, byte by byte. A grammar is automata in sequences and choices, with parts that are made when they are come to, so
 * that it may refer to itself. Where a text is, is a set of places, each an automaton's state and what follows on it; sets are made when they are
 * come to, and are one object if they are alike. Knows no tokens and no JSON.
 */
import type { Automaton } from "./automaton.js";
import { dead } from "./encoding.js";

/** A part of a grammar. */
export type GrammarPart =
  | { readonly kind: "automaton"; readonly automaton: Automaton }
  | { readonly kind: "sequence"; readonly parts: readonly GrammarPart[] }
  | { readonly kind: "choice"; readonly options: readonly GrammarPart[] }
  /** Made once, when it is come to. */
  | { readonly kind: "later"; readonly part: () => GrammarPart };

/** What follows: a part, and what follows on that. */
class Following {
  readonly part: GrammarPart | undefined;
  readonly rest: Following | undefined;
  readonly #before = new Map<GrammarPart, Following>();

  constructor(part?: GrammarPart, rest?: Following) {
    this.part = part;
    this.rest = rest;
  }

  /** The same with a part before it. */
  after(part: GrammarPart): Following {
    let found = this.#before.get(part);
    if (found === undefined) this.#before.set(part, (found = new Following(part, this)));
    return found;
  }
}

/** One way in which a text may have come where it is. */
interface Place {
  readonly automaton: Automaton;
  readonly state: number;
  readonly rest: Following;
}

/** Where a text is. */
export interface Situation {
  readonly places: readonly Place[];
  /** True if the text may end here. */
  readonly mayEnd: boolean;
  /** The next ones by byte, as far as they were asked for; null where there is none. */
  next: (Situation | null | undefined)[];
  /** The same by the states that the places come to: many bytes lead to the same. */
  byStates: Map<string | number, Situation | null>;
  /** For whoever follows: what it has found out here. */
  note?: unknown;
}

/** Two states as one number; so many states an automaton may have that they are told apart. */
const pairKey = (first: number, second: number): number | string =>
  first < mostStates && second < mostStates ? (first + 1) * mostStates + second + 1 : `${first},${second}`;
const mostStates = 2 ** 25;
/** Neither goes on. */
const nowhere = 0;

/** About what a situation takes, without its note, and what each of its places does. */
const bytesOf = { situation: 2600, place: 80 } as const;

/** A place for every byte. */
const emptyRow = (): (Situation | null | undefined)[] => Array<Situation | null | undefined>(256).fill(undefined);

/** A grammar that texts are followed through. */
export class Machine {
  readonly #root: GrammarPart;
  #known = new Map<string, Situation>();
  #start: Situation | undefined;
  #numbers = new Map<object, number>();
  #bytes = 0;
  /** Bytes that automata have read for it: what was found before takes none. */
  steps = 0;

  constructor(root: GrammarPart) {
    this.#root = root;
  }

  /** Where every text begins. */
  get start(): Situation {
    if (this.#start === undefined) {
      const gather = new Gathering();
      gather.enter(this.#root, new Following());
      this.#start = this.#situation(gather);
    }
    return this.#start;
  }

  /** About what its situations take. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Notes something at a situation, which takes memory. */
  note(situation: Situation, note: unknown, bytes: number): void {
    situation.note = note;
    this.#bytes += bytes;
  }

  /** Where a byte leads; null where none goes on with it. */
  step(from: Situation, byte: number): Situation | null {
    const known = from.next[byte];
    if (known !== undefined) return known;
    if (from.places.length === 0) return null;
    this.steps += from.places.length;
    // Bytes that lead to the same states lead to the same situation; most texts are at one place or two.
    const states =
      from.places.length < 3 ? undefined : from.places.map(({ automaton, state }) => automaton.next(state, byte));
    const first = states === undefined ? from.places[0].automaton.next(from.places[0].state, byte) : dead;
    const second = from.places.length === 2 ? from.places[1].automaton.next(from.places[1].state, byte) : dead;
    const key = states === undefined ? pairKey(first, second) : states.join();
    let to = key === nowhere ? null : from.byStates.get(key);
    if (to === undefined) {
      const gather = new Gathering();
      (states ?? [first, second]).forEach((state, at) => {
        if (state >= 0) gather.reach(from.places[at].automaton, state, from.places[at].rest);
      });
      to = gather.isEmpty ? null : this.#situation(gather);
      from.byStates.set(key, to);
    }
    from.next[byte] = to;
    return to;
  }

  /** Forgets what can be found again. Texts that are followed stay where they are. */
  forget(): void {
    for (const situation of this.#known.values()) {
      situation.next = emptyRow();
      situation.byStates.clear();
      situation.note = undefined;
    }
    this.#known = new Map();
    this.#numbers = new Map();
    this.#start = undefined;
    this.#bytes = 0;
  }

  #situation({ places, mayEnd }: Gathering): Situation {
    const list = [...places.values()];
    const keys = list.map(({ automaton, state, rest }) => `${this.#number(automaton)}:${state}:${this.#number(rest)}`);
    const key = `${keys.sort().join(" ")}${mayEnd ? " end" : ""}`;
    let found = this.#known.get(key);
    if (found === undefined) {
      found = { places: list, mayEnd, next: emptyRow(), byStates: new Map() };
      this.#known.set(key, found);
      this.#bytes += bytesOf.situation + bytesOf.place * list.length;
    }
    return found;
  }

  #number(thing: object): number {
    let number = this.#numbers.get(thing);
    if (number === undefined) this.#numbers.set(thing, (number = this.#numbers.size));
    return number;
  }
}

/** The places that one byte leads to. */
class Gathering {
  readonly places = new Set<Place>();
  mayEnd = false;
  /** What was reached and entered: each once. */
  readonly #reached = new Map<Following, Map<object, Set<number>>>();

  get isEmpty(): boolean {
    return this.places.size === 0 && !this.mayEnd;
  }

  /** An automaton has come to a state. */
  reach(automaton: Automaton, state: number, rest: Following): void {
    if (!this.#isNew(automaton, state, rest)) return;
    if (automaton.goesOn(state)) this.places.add({ automaton, state, rest });
    if (automaton.accepts(state)) this.#follow(rest);
  }

  /** A part begins. */
  enter(part: GrammarPart, rest: Following): void {
    if (part.kind === "automaton") {
      this.reach(part.automaton, part.automaton.start, rest);
      return;
    }
    if (!this.#isNew(part, 0, rest)) return;
    switch (part.kind) {
      case "sequence": {
        const [first, ...others] = part.parts;
        if (first === undefined) this.#follow(rest);
        else
          this.enter(
            first,
            others.reduceRight((after, each) => after.after(each), rest),
          );
        return;
      }
      case "choice":
        for (const option of part.options) this.enter(option, rest);
        return;
      case "later":
        this.enter(part.part(), rest);
        return;
      default:
        part satisfies never;
    }
  }

  #follow({ part, rest }: Following): void {
    if (part === undefined || rest === undefined) this.mayEnd = true;
    else this.enter(part, rest);
  }

  #isNew(thing: object, state: number, rest: Following): boolean {
    let things = this.#reached.get(rest);
    if (things === undefined) this.#reached.set(rest, (things = new Map()));
    let states = things.get(thing);
    if (states === undefined) things.set(thing, (states = new Set()));
    if (states.has(state)) return false;
    states.add(state);
    return true;
  }
}
