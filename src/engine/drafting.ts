/**
 * Guesses by draft models and heads, for the texts of one engine: before a step is planned, whoever follows a text that goes on guesses its next tokens.
 * What is guessed is checked by the step; a draft that fails leaves its text without guesses.
 */
import { Acceptance, Costs, GuessLength, type LookupsKnown, Rest } from "#insitu/choice/guess-length.js";
import { MadeText } from "./made-text.js";
import type { DraftSource, Follower } from "./text-ask.js";
import type { BegunStep } from "./step.js";
import type { TokenEngine } from "./token-engine.js";
import { guessing } from "#insitu/choice/tuning.js";

/** What is known of a draft model. */
interface Known {
  /** Milliseconds of one guess, by the number of texts that are guessed for at once. */
  readonly costs: Costs;
  readonly acceptance: Acceptance;
  readonly rest: Rest;
}

/** A text's draft. */
interface Following {
  readonly length: GuessLength;
  /** Undefined before the first guess. */
  text: Follower | undefined;
  /** It failed: there are no more guesses. */
  isOver: boolean;
}

/** The drafts of an engine's texts. */
export class Drafting {
  readonly #engine: TokenEngine;
  readonly #known = new WeakMap<DraftSource, Known>();
  readonly #following = new Map<MadeText, Following>();
  readonly #leaving = new Map<MadeText, Promise<void>>();
  /** Steps by their tokens. */
  readonly #steps = new Costs();
  /** What guesses that are looked up are worth. */
  readonly lookups: LookupsKnown = { steps: this.#steps, acceptance: new Acceptance(), texts: 1 };
  /** When a step landed last. */
  #landed = 0;
  /** The engine whose turns are waited for. */
  #waitsFor: TokenEngine | undefined;

  constructor(engine: TokenEngine) {
    this.#engine = engine;
  }

  /** Has guesses made for texts that are about to be read. */
  async propose(texts: readonly MadeText[]): Promise<void> {
    const bySource = new Map<DraftSource, MadeText[]>();
    for (const text of texts) {
      const { draft } = text.ask.speculate!;
      bySource.set(draft!, [...(bySource.get(draft!) ?? []), text]);
    }
    for (const [source, own] of bySource) await this.#proposeBy(source, own);
  }

  async #proposeBy(source: DraftSource, texts: readonly MadeText[]): Promise<void> {
    // Two models may be each other's drafts: one of them goes on without.
    if (source.engine?.drafting.waitsFor(this.#engine) === true) return;
    const known = this.#known.get(source) ?? { costs: new Costs(), acceptance: new Acceptance(), rest: new Rest() };
    this.#known.set(source, known);
    const asked: { readonly made: MadeText; readonly text: Follower }[] = [];
    let longest = 0;
    let unread = 0;
    for (const made of texts) {
      const count = this.#countFor(made, known, texts.length);
      const text = count > 0 ? this.#follow(made, source, known) : undefined;
      // Where tokens come one by one, each is asked.
      if (count === 0 && made.mayGoOn) made.goOn(this.#freeOf(made, texts.length));
      if (text === undefined) continue;
      if (!text.ask(count)) this.#stop(made);
      else {
        asked.push({ made, text });
        longest = Math.max(longest, count);
        unread = Math.max(unread, text.unread);
      }
    }
    if (asked.length === 0) return;
    const began = performance.now();
    this.#waitsFor = source.engine;
    try {
      for (let open = asked; open.length > 0; open = open.filter(({ made, text }) => !made.isOver && !text.isDone))
        if (!(await source.advance(open.map(({ text }) => text)))) break;
    } finally {
      this.#waitsFor = undefined;
    }
    if (unread <= guessing.mostRows) known.costs.note(asked.length, (performance.now() - began) / longest);
    for (const { made, text } of asked) {
      if (text.isOver || !text.isDone) this.#stop(made);
      if (!made.isOver) made.tryOut(text.guesses);
    }
  }

  /** True if turns of the other engine wait for this one's, at once or by others. */
  waitsFor(other: TokenEngine): boolean {
    return this.#engine === other || this.#waitsFor?.drafting.waitsFor(other) === true;
  }

  #countFor(made: MadeText, known: Known, texts: number): number {
    const { tokens, adaptive } = made.ask.speculate!;
    const following = this.#following.get(made) ?? {
      length: new GuessLength(tokens, new Acceptance(known.acceptance), known.rest),
      text: undefined,
      isOver: false,
    };
    this.#following.set(made, following);
    if (following.isOver) return 0;
    const wanted = adaptive ? following.length.choose(texts, this.#steps, known.costs.of(texts, true)) : tokens;
    return Math.min(wanted, made.guessRoom);
  }

  /** Tokens that a text goes on with before it is asked again whether guesses pay. */
  #freeOf(made: MadeText, texts: number): number {
    const { isOver, length } = this.#following.get(made)!;
    return isOver ? Infinity : length.freeTokens(texts, this.#steps);
  }

  /** The text of the draft that follows another; undefined where there is no room for one. */
  #follow(made: MadeText, source: DraftSource, known: Known): Follower | undefined {
    const following = this.#following.get(made)!;
    if (following.text !== undefined) return following.text;
    try {
      following.text = source.follow(made);
      made.onChecked = (guessed, right) => {
        following.length.note(guessed, right);
        known.acceptance.note(guessed, right);
      };
      return following.text;
    } catch {
      this.#stop(made);
      return undefined;
    }
  }

  /** A step has landed, and its texts have heard of it. */
  landed({ parts, since, count: steps }: BegunStep): void {
    // Where one is begun before the last has landed, it waits for that first.
    const began = Math.max(since, this.#landed);
    this.#landed = performance.now();
    if (this.#following.size === 0 && !parts.some(({ text }) => text instanceof MadeText && text.looksUp)) return;
    this.lookups.texts = parts.length;
    const counts = parts.map(({ tokens }) => (tokens === "drawn" ? 1 : tokens.length));
    if (!counts.some((count) => count > guessing.mostRows))
      this.#steps.note(
        counts.reduce((sum, count) => sum + count, 0),
        (this.#landed - began) / steps,
      );
  }

  /** Leaves a text without guesses. */
  #stop(made: MadeText): void {
    const following = this.#following.get(made)!;
    following.isOver = true;
    this.#letGo(made, following);
  }

  /** A text is over: its draft's caches are given back. */
  left(made: MadeText): void {
    const following = this.#following.get(made);
    this.#following.delete(made);
    if (following !== undefined) this.#letGo(made, following);
  }

  #letGo(made: MadeText, following: Following): void {
    const { text } = following;
    const source = made.ask.speculate?.draft;
    following.text = undefined;
    if (text === undefined || source === undefined) return;
    const leaving = (this.#leaving.get(made) ?? Promise.resolve())
      .then(() => source.leave(text))
      .catch(() => undefined)
      .finally(() => this.#leaving.delete(made));
    this.#leaving.set(made, leaving);
  }

  /** Resolves once nothing of a text that left is held. */
  async gone(made: MadeText): Promise<void> {
    await this.#leaving.get(made);
  }
}
