/**
 * The names of options: what is misspelt, or another library's word, is refused with the one that was meant. A type's names are listed once, and the
 * compiler says where the list and the type differ.
 */
import { InsituError } from "./error.js";

/** Every name of a type of options, those that may be left out among them. */
export type OptionNames<T> = { readonly [Name in keyof T]-?: true };

/** Words of other libraries and what they are here, with a note behind some: the first that a function knows is told. */
const foreignWords: Readonly<Record<string, readonly string[]>> = {
  maxnewtokens: ["maxTokens"],
  maxoutputtokens: ["maxTokens"],
  maxcompletiontokens: ["maxTokens"],
  maxgenlen: ["maxTokens"],
  maxlength: ["maxTokens", "context"],
  npredict: ["maxTokens"],
  numpredict: ["maxTokens"],
  minnewtokens: ["minTokens"],
  minlength: ["minTokens"],
  dosample: ["temperature (0 takes the likeliest token)"],
  greedy: ["temperature (0 takes the likeliest token)"],
  temp: ["temperature"],
  repeatpenalty: ["repetitionPenalty"],
  randomseed: ["seed"],
  numbeams: ["beams"],
  numreturnsequences: ["beams"],
  stopsequences: ["stop"],
  stopstrings: ["stop"],
  stopwords: ["stop"],
  customstoptriggers: ["stop"],
  eostokenid: ["stopTokens"],
  stoptokenids: ["stopTokens"],
  ignoreeos: ["ignoreEnd"],
  toplogprobs: ["logprobs"],
  responseformat: ["jsonSchema"],
  responseschema: ["jsonSchema"],
  schema: ["jsonSchema"],
  guidedjson: ["jsonSchema"],
  guidedregex: ["regex"],
  guidedgrammar: ["grammar"],
  structuredoutputs: ["jsonSchema"],
  pattern: ["regex"],
  gbnf: ["grammar"],
  ebnf: ["grammar"],
  format: ["jsonSchema"],
  tools: ["templateOptions"],
  tokenizerencodekwargs: ["templateOptions"],
  abortsignal: ["signal"],
  abortcontroller: ["signal"],
  stoppingcriteria: ["signal", "stop"],
  device: ["backend"],
  executionprovider: ["backend", "executionProviders"],
  provider: ["backend"],
  gpu: ["backend"],
  dtype: ["variant"],
  quantization: ["variant"],
  quantized: ["variant"],
  precision: ["variant"],
  modelfilename: ["variant"],
  nctx: ["context"],
  numctx: ["context"],
  contextlength: ["context"],
  contextsize: ["context"],
  contextwindow: ["context"],
  contextwindowsize: ["context"],
  maxcontext: ["context"],
  maxmodellen: ["context"],
  nbatch: ["chunk"],
  batchsize: ["chunk"],
  nthreads: ["threads"],
  numthreads: ["threads"],
  threadcount: ["threads"],
  progresscallback: ["onProgress"],
  initprogresscallback: ["onProgress"],
  onloadprogress: ["onProgress"],
  revision: ["hub"],
  token: ["accessToken", "hub"],
  cachedir: ["cache", "hub"],
  localfilesonly: ["hub"],
  kvcachedtype: ["cacheType"],
  cachetypek: ["cacheType"],
  numgpublocks: ["blocks"],
  numblocks: ["blocks"],
  maxmemory: ["memoryLimit"],
  sessionoptions: ["backend"],
  apikey: ["apiKeys"],
  servedmodelname: ["model"],
  origins: ["cors"],
  maxconcurrency: ["maxRunning"],
  maxnumseqs: ["maxRunning"],
  logger: ["log"],
};

/** A name without what spellings differ in: `max_new_tokens` and `maxNewTokens` are one. */
const plain = (name: string): string => name.replace(/[^\p{L}\p{N}]/gu, "").toLowerCase();

/** Throws for the first name that is none of those known, unless nothing stands behind it. `what` are the options of. */
export function checkOptionNames(what: string, given: object, known: Readonly<Record<string, true>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(known, name)) continue;
    const shown = name.length > 60 ? `${name.slice(0, 60)}…` : name;
    // Names within an option are told with it.
    const unknown = what.startsWith("option ")
      ? `${what}.${shown} is not known`
      : `${what}: ${JSON.stringify(shown)} is no option`;
    throw new InsituError("invalid-argument", `${unknown}; ${wayOut(name, known)}`, { as: "TypeError" });
  }
}

/** The name that was meant, where one can be told; else those that there are. */
function wayOut(name: string, known: Readonly<Record<string, true>>): string {
  const names = Object.keys(known);
  const meant = meantName(name, names);
  return meant === undefined ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
}

/** Which of some names was meant by one that is none of them: the same in another spelling, in another library's words, or the nearest. */
export function meantName(name: string, names: readonly string[]): string | undefined {
  const word = plain(name.slice(0, 60));
  const foreign = Object.hasOwn(foreignWords, word) ? foreignWords[word] : [];
  return (
    names.find((each) => plain(each) === word) ??
    foreign.find((each) => names.includes(each.split(" ")[0])) ??
    nearest(word, names)
  );
}

/** The name that the fewest letters differ in, where most of them are the same; or that a word begins with, or begins. */
function nearest(word: string, names: readonly string[]): string | undefined {
  const found = names
    .map((name) => ({ name, distance: distanceOf(word, plain(name)) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(Math.max(word.length, name.length) / 3)))
    .toSorted((a, b) => a.distance - b.distance);
  const part = names.find((name) => word.length > 3 && (plain(name).includes(word) || word.includes(plain(name))));
  return found.at(0)?.name ?? part;
}

/** Letters to be put in, taken out, replaced, or swapped with their neighbour, to make one word the other. */
function distanceOf(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? before[j - 2] + 1 : changed;
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, changed, swapped));
    }
    [before, row] = [row, next];
  }
  return row[b.length];
}
