/** `insitu generate`: text, token by token, then a summary of what it took. */
import { readFileSync } from "node:fs";
import type { CausalLM } from "#insitu/entry/node.js";
import type { JsonSchema } from "#insitu/choice/constraint.js";
import type { GeneratedToken, Generation } from "#insitu/generate/generation.js";
import type { Command } from "./command.js";
import { Interrupt, interruptedCode } from "./interrupt.js";
import { generateOptions, loadDraft, loadModel, pageOptions, textOptions, withDraft } from "./language-model.js";
import { readStandardInput } from "./standard-input.js";
import { printSummary } from "./summary.js";
import { UsageError } from "./usage.js";
import { textOutput } from "./word-wrap.js";

/** How the embedded model begins when nobody says how. */
const firstWords = "Once upon a time there was";

/** Continues a prompt. */
export const generate: Command = {
  name: "generate",
  positionals: "[prompt]",
  arity: [0, 1],
  summary: "generates text after a prompt, which can also come on standard input (-)",
  options: {
    ...textOptions,
    ...pageOptions,
    raw: { describes: "continue the prompt as it is, without the model's chat template" },
    "json-schema": {
      value: "file",
      describes: "structured output: prints only JSON that matches this schema (a file, or the schema itself)",
    },
    json: { describes: "the text, its tokens and the summary as JSON" },
    quiet: { describes: "no summary" },
  },
  async run({ positionals: [argument], options }) {
    const model = options["model"];
    const prompt = await readPrompt(argument, typeof model === "string");
    const wanted = { ...generateOptions(options), ...schemaOption(options["json-schema"]) };
    const interrupt = new Interrupt();
    const lm = await interrupt.during(loadModel(options, interrupt.signal));
    let draft: Awaited<ReturnType<typeof loadDraft>>;
    try {
      draft = await interrupt.during(loadDraft(options, lm, interrupt.signal));
      const raw = options["raw"] === true || !lm.tokenizer.hasChatTemplate;
      const generation = lm.generate(raw ? prompt : [{ role: "user", content: prompt }], {
        ...withDraft(wanted, draft),
        // A text that nobody said how long it should be, and that is no answer which ends by itself.
        endAtSentence: raw && options["max-tokens"] === undefined && wanted.jsonSchema === undefined,
        signal: interrupt.signal,
      });
      if (options["json"] === true) await printJson(lm, generation, prompt, interrupt.signal);
      else {
        const isStructure = wanted.jsonSchema !== undefined;
        const shown = raw && !isStructure ? prompt : "";
        await printText(generation, shown, options["quiet"] === true, interrupt.signal, isStructure);
      }
      if (interrupt.signal.aborted) return interruptedCode;
      return wanted.jsonSchema === undefined ? 0 : structureCode(generation);
    } finally {
      interrupt.forget();
      await lm.release();
      await draft?.release();
    }
  },
};

/** The exit code of JSON by a schema: what was cut is no result. */
function structureCode({ summary: { finishReason, newTokens } }: Generation): number {
  if (finishReason === "end" || finishReason === "stop") return 0;
  const wayOut = finishReason === "length" ? "give a larger --max-tokens" : "give a larger --context";
  console.error(`insitu: the JSON was cut after ${newTokens} tokens, before it was complete: ${wayOut}`);
  return 1;
}

/** What --json-schema names, or is. */
function schemaOption(given: string | boolean | undefined): { readonly jsonSchema?: JsonSchema } {
  if (typeof given !== "string") return {};
  try {
    const text = given.trimStart().startsWith("{") ? given : readFileSync(given, "utf8");
    return { jsonSchema: JSON.parse(text) as JsonSchema };
  } catch (cause) {
    throw new UsageError(`--json-schema cannot be read: ${(cause as Error).message}`, cause);
  }
}

async function readPrompt(argument: string | undefined, hasModel: boolean): Promise<string> {
  if (argument !== undefined && argument !== "-") return argument;
  const piped = await readStandardInput(argument === "-");
  // The newline that ends a file is no part of what it says.
  if (piped !== undefined) return piped.replace(/\r?\n$/, "");
  if (argument === "-" || hasModel)
    throw new UsageError("there is no prompt: give it as an argument or on standard input");
  return firstWords;
}

async function printText(
  generation: Generation,
  prompt: string,
  quiet: boolean,
  signal: AbortSignal,
  isStructure: boolean,
): Promise<void> {
  // JSON has no line ends but its own.
  const output = isStructure
    ? { write: (text: string) => void process.stdout.write(text), end: () => {} }
    : textOutput();
  output.write(prompt);
  await finish(generation, signal, (text) => output.write(text));
  output.end();
  process.stdout.write("\n");
  if (!quiet) printSummary(generation.summary);
}

async function printJson(lm: CausalLM, generation: Generation, prompt: string, signal: AbortSignal): Promise<void> {
  const tokens: number[] = [];
  await finish(generation, signal, (_, token) => tokens.push(token));
  const { summary, textSoFar: text } = generation;
  console.log(JSON.stringify({ prompt, text, tokens, context: lm.contextLength, ...summary }, null, 2));
}

/** Makes the whole text, or what there is of it when the signal comes. */
export async function finish(
  generation: AsyncIterable<GeneratedToken>,
  signal: AbortSignal,
  show: (text: string, token: number) => void,
): Promise<void> {
  try {
    for await (const { text, token } of generation) show(text, token);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
