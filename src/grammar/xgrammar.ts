/**
 * The package @mlc-ai/web-xgrammar, as often as it is wanted: every instance has a memory of its own. It ends for good at a grammar that it does
 * not like, so that grammars are tried out in an instance that can be thrown away.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { InsituError } from "../base/error.js";

/** A handle of the package's: memory that is freed by hand. */
interface Held {
  dispose(): void;
}

/** Follows one text. */
export interface Matcher extends Held {
  readonly handle: {
    GetNextTokenBitmask(vocabulary: number): { size(): number; get(index: number): number; delete(): void };
  };
  acceptToken(token: number): boolean;
  getNextTokenBitmask(): Promise<Int32Array>;
  rollBack(count: number): void;
}

export type Compiled = Held;

export interface Compiler extends Held {
  compileGrammar(grammar: string): Promise<Compiled>;
  compileStructuralTag(tag: object): Promise<Compiled>;
}

/** What is used of the package. */
export interface XGrammar {
  readonly TokenizerInfo: {
    createTokenizerInfo(
      spellings: readonly string[],
      kind: string,
      prependSpace: boolean,
      size: number,
      ends: readonly number[],
    ): Promise<Held>;
  };
  readonly GrammarCompiler: { createGrammarCompiler(info: Held, cached: boolean): Promise<Compiler> };
  readonly Testings: {
    _jsonSchemaToEBNF(
      schema: string,
      anyWhitespace: boolean,
      indent: number,
      separators: undefined,
      strict: boolean,
      mostWhitespace: number,
    ): Promise<string>;
  };
  readonly GrammarMatcher: { createGrammarMatcher(compiled: Compiled): Promise<Matcher> };
}

const packageName = "@mlc-ai/web-xgrammar";

let found: { readonly path: string; readonly source: string } | undefined;

function find(): { readonly path: string; readonly source: string } {
  if (found !== undefined) return found;
  try {
    const path = createRequire(import.meta.url).resolve(packageName);
    // A function's own import depends on who runs it; its require is handed in.
    const source = readFileSync(path, "utf8").replace(/await import\((["'])module\1\)/, 'require("module")');
    return (found = { path, source });
  } catch (cause) {
    throw new InsituError(
      "invalid-argument",
      `texts that obey a schema need the package ${packageName}: npm install ${packageName}`,
      { cause },
    );
  }
}

let compiled: Promise<WebAssembly.Module> | undefined;

/** WebAssembly for an instance: what all of them are made of is compiled once. */
const compilesOnce = Object.create(WebAssembly, {
  instantiate: {
    async value(bytes: BufferSource, imports: WebAssembly.Imports): Promise<WebAssembly.WebAssemblyInstantiatedSource> {
      const module = await (compiled ??= WebAssembly.compile(bytes));
      return { module, instance: await WebAssembly.instantiate(module, imports) };
    },
  },
}) as typeof WebAssembly;

/** A fresh instance; `say` hears what it prints, which is where it says why it ended. */
export function newInstance(say: (text: string) => void): XGrammar {
  const { path, source } = find();
  const console = { log: say, warn: say, error: say };
  const module = { exports: {} };
  // The package calls itself an ES module and is none: importing it fails. As a function it is what it was written as.
  const names = ["exports", "require", "module", "__filename", "__dirname", "console", "WebAssembly"];
  // oxlint-disable-next-line typescript/no-implied-eval
  const run = new Function(...names, source) as (...values: readonly unknown[]) => void;
  run.call(module.exports, module.exports, createRequire(path), module, path, dirname(path), console, compilesOnce);
  return module.exports as XGrammar;
}
