/** Constraints by rules, on @mlc-ai/web-xgrammar: rules are tried out apart, compiled once, and followed token by token. */
import { InsituError } from "../base/error.js";
import { Recent } from "../base/recent.js";
import type {
  CallForm,
  Grammars,
  GrammarVocabulary,
  HeldConstraint,
  JsonSchema,
  TextRule,
} from "../generate/constraint.js";
import { enforceable } from "./schema.js";
import { type Compiled, type Compiler, type Matcher, newInstance, type XGrammar } from "./xgrammar.js";

/** Compiled rules that are kept. */
const keptRules = 64;

/** Blanks that may stand at one place: a model that goes on with nothing else would never end. */
const mostBlanks = 1;

/** Makes grammars for a vocabulary. */
export async function makeGrammars(vocabulary: GrammarVocabulary): Promise<Grammars> {
  if (vocabulary.kind === "raw")
    throw new InsituError(
      "invalid-argument",
      "texts of this model cannot be kept to a schema: its tokenizer has neither bytes nor letters for spaces",
    );
  const grammars = new CompiledGrammars(vocabulary);
  await grammars.prepare();
  return grammars;
}

async function compilerFor(library: XGrammar, { kind, spellings, endTokens }: GrammarVocabulary): Promise<Compiler> {
  const info = await library.TokenizerInfo.createTokenizerInfo(spellings, kind, false, spellings.length, endTokens);
  return library.GrammarCompiler.createGrammarCompiler(info, false);
}

/** An instance that compiles for the vocabulary, and what it has compiled. */
interface Instance {
  readonly library: XGrammar;
  readonly compiler: Compiler;
  readonly kept: Recent<{ readonly key: string; readonly compiled: Compiled }>;
}

class CompiledGrammars implements Grammars {
  readonly #vocabulary: GrammarVocabulary;
  /** One rule is tried out and compiled at a time: what the package says is about one. */
  #line: Promise<unknown> = Promise.resolve();
  #instance: Promise<Instance> | undefined;
  #trial: Promise<Trial> | undefined;

  constructor(vocabulary: GrammarVocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** Makes the instance that is used. */
  prepare(): Promise<Instance> {
    this.#instance ??= (async () => {
      const library = newInstance(() => {});
      return { library, compiler: await compilerFor(library, this.#vocabulary), kept: new Recent(keptRules) };
    })();
    return this.#instance;
  }

  async constrain(rule: TextRule): Promise<HeldConstraint> {
    const work = this.#line.then(() => this.#begin(rule));
    this.#line = work.catch(() => {});
    return work;
  }

  async #begin(rule: TextRule): Promise<HeldConstraint> {
    const key = JSON.stringify(rule);
    const instance = await this.prepare();
    const known = instance.kept.use((each) => each.key === key)?.compiled;
    const read = known === undefined ? await this.#try(rule) : undefined;
    try {
      const compiled = known ?? (await compile(instance.compiler, read!));
      if (known === undefined) instance.kept.add({ key, compiled })?.compiled.dispose();
      const matcher = await instance.library.GrammarMatcher.createGrammarMatcher(compiled);
      return new GrammarConstraint(matcher, this.#vocabulary);
    } catch (cause) {
      // What was tried out fails here only if the vocabulary is too much for it; what comes next begins anew.
      this.#instance = undefined;
      throw new InsituError("invalid-argument", "the schema cannot be enforced: its grammar is too large", { cause });
    }
  }

  /** A rule in the package's words. Throws for one that would end the instance, or of which it says that a part is passed over. */
  async #try(rule: TextRule): Promise<ReadRule> {
    const trial = await (this.#trial ??= Trial.begin());
    try {
      return await trial.read(rule);
    } catch (error) {
      // What has ended once is broken.
      if (trial.spoiled) this.#trial = undefined;
      throw error;
    }
  }
}

/** An instance to try rules out in. */
class Trial {
  readonly #library: XGrammar;
  readonly #compiler: Compiler;
  readonly #said: string[];
  /** True once the package ended at a rule. */
  spoiled = false;

  private constructor(library: XGrammar, compiler: Compiler, said: string[]) {
    this.#library = library;
    this.#compiler = compiler;
    this.#said = said;
  }

  static async begin(): Promise<Trial> {
    const said: string[] = [];
    const library = newInstance((text) => void said.push(text));
    const vocabulary = { kind: "raw", spellings: ["a", "</s>"], endTokens: [1] } as const;
    return new Trial(library, await compilerFor(library, vocabulary), said);
  }

  /** A rule in the package's words; throws where it cannot be compiled to the letter. */
  async read(rule: TextRule): Promise<ReadRule> {
    this.#said.length = 0;
    const refuse = (why: string, cause?: unknown): never => {
      throw new InsituError("invalid-argument", `the schema cannot be enforced: ${why}`, { cause });
    };
    try {
      const read = await readRule(rule, this.#library);
      (await compile(this.#compiler, read)).dispose();
      const why = whyOf(this.#said);
      return why === undefined ? read : refuse(why);
    } catch (error) {
      if (error instanceof InsituError) throw error;
      this.spoiled = true;
      return refuse(whyOf(this.#said) ?? String(error), error);
    }
  }
}

/** What the package said, without where in its source it said so. */
function whyOf(said: readonly string[]): string | undefined {
  const told = said.find((text) => /^\[(FATAL|WARNING)\]/.test(text));
  return told?.replace(/^\[\w+\]\s+\S+:\d+:\s*/, "").replace(/^Check failed: \(.*?\) is false: /, "");
}

/** A rule in the package's words: a grammar, or one with parts that are begun and ended by fixed texts. */
type ReadRule = string | object;

async function readRule(rule: TextRule, library: XGrammar): Promise<ReadRule> {
  const grammarOf = (schema: JsonSchema): Promise<string> =>
    library.Testings._jsonSchemaToEBNF(JSON.stringify(enforceable(schema)), true, 2, undefined, true, mostBlanks);
  const tagOf = async ({ begin, schema, end }: CallForm): Promise<object> => ({
    type: "tag",
    begin,
    content: { type: "grammar", grammar: await grammarOf(schema) },
    end,
  });
  const tagsOf = async (forms: readonly CallForm[]): Promise<object[]> => {
    const tags: object[] = [];
    for (const form of forms) tags.push(await tagOf(form));
    return tags;
  };
  switch (rule.kind) {
    case "schema":
      return grammarOf(rule.schema);
    case "object":
      return grammarOf({ type: "object" });
    case "calls": {
      const tags = await tagsOf(rule.forms);
      const format = rule.single
        ? { type: "or", elements: tags }
        : { type: "tags_with_separator", tags, separator: rule.between, at_least_one: true, stop_after_first: false };
      return { type: "structural_tag", format };
    }
    case "text-with-calls": {
      const format = { type: "triggered_tags", triggers: [rule.trigger], tags: await tagsOf(rule.forms) };
      return { type: "structural_tag", format };
    }
    default:
      return rule satisfies never;
  }
}

const compile = (compiler: Compiler, rule: ReadRule): Promise<Compiled> =>
  typeof rule === "string" ? compiler.compileGrammar(rule) : compiler.compileStructuralTag(rule);

/** One text kept to a grammar. */
class GrammarConstraint implements HeldConstraint {
  readonly #size: number;
  readonly #ends: Int32Array;
  #matcher: Matcher | undefined;
  /** What may come next, once it was asked for; it is asked for ahead, since the quick way to it takes a turn of promises. */
  #mask: Int32Array | undefined;
  #turn = 0;

  constructor(matcher: Matcher, { spellings, endTokens }: GrammarVocabulary) {
    this.#matcher = matcher;
    this.#size = spellings.length;
    this.#ends = new Int32Array(Math.ceil(spellings.length / 32));
    for (const token of endTokens) this.#ends[token >>> 5] |= 1 << (token & 31);
    this.#ask();
  }

  fillMask(mask: Uint32Array): boolean {
    if (this.#matcher === undefined) return false;
    const allowed = this.#allowed(this.#matcher);
    mask.fill(0);
    mask.set(allowed.subarray(0, mask.length));
    const last = this.#size & 31;
    const full = (word: number, at: number): boolean =>
      word === (at === allowed.length - 1 && last > 0 ? (1 << last) - 1 : -1);
    return !allowed.every(full);
  }

  accept(token: number): boolean {
    if (this.#matcher === undefined) return true;
    const accepted = this.#matcher.acceptToken(token);
    if (accepted) this.#ask();
    return accepted;
  }

  rollback(count: number): void {
    this.#matcher?.rollBack(count);
    this.#ask();
  }

  get terminated(): boolean {
    if (this.#matcher === undefined) return false;
    return this.#allowed(this.#matcher).every((word, at) => (word & ~this.#ends[at]) === 0);
  }

  release(): void {
    this.#matcher?.dispose();
    this.#matcher = undefined;
    this.#turn++;
  }

  #ask(): void {
    const turn = ++this.#turn;
    this.#mask = undefined;
    this.#matcher?.getNextTokenBitmask().then(
      (mask) => {
        if (turn === this.#turn) this.#mask = mask;
      },
      // Released in the meantime; or it fails again where it is needed.
      () => {},
    );
  }

  #allowed({ handle }: Matcher): Int32Array {
    if (this.#mask !== undefined) return this.#mask;
    const words = handle.GetNextTokenBitmask(this.#size);
    this.#mask = Int32Array.from({ length: words.size() }, (_, at) => words.get(at));
    words.delete();
    return this.#mask;
  }
}
