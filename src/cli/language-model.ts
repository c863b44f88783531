/** What `generate` and `chat` share: their options, the model they load, and how numbers are read. */
import { InsituError } from "../base/error.js";
import { CausalLM } from "../entry/node.js";
import type { GenerateOptions, WhenFull } from "../generate/options.js";
import { bytesText } from "../plan/explain.js";
import type { BackendName } from "../session/options.js";
import type { Arguments, CommandOption } from "./command.js";

/** Options of every command that makes text. */
export const textOptions: Readonly<Record<string, CommandOption>> = {
  model: { value: "name", describes: "a folder in the hub's layout, an ONNX file in it, or owner/name on the hub" },
  variant: { value: "name", describes: "which ONNX file of the folder: q4 is onnx/model_q4.onnx" },
  "max-tokens": { value: "N", describes: "new tokens at most (256)" },
  temperature: { value: "T", describes: "0 takes the likeliest token, 1 is the model's own distribution" },
  "top-k": { value: "K", describes: "only the K likeliest tokens" },
  "top-p": { value: "P", describes: "only the likeliest tokens that together have the probability P" },
  "min-p": { value: "P", describes: "only tokens at least P times as likely as the likeliest" },
  "repetition-penalty": { value: "R", describes: "above 1, tokens that were there get less likely" },
  seed: { value: "S", describes: "the same seed gives the same text" },
  context: { value: "N", describes: "tokens that prompt and text may take together" },
  "when-full": { value: "what", describes: "stop, slide (forget the oldest tokens) or error when the context is full" },
  stop: { value: "text", describes: "ends the text" },
  speculate: { describes: "guess tokens by what was said before, and check the guesses" },
  backend: { value: "name", describes: "wasm or reference" },
  threads: { value: "N", describes: "threads in all" },
};

type Options = Arguments["options"];

/** Loads the model that the options name. */
export function loadModel(options: Options): Promise<CausalLM> {
  const { model, backend, variant } = options;
  return CausalLM.load(typeof model === "string" ? model : undefined, {
    ...given("context", numberOf(options, "context")),
    ...given("threads", numberOf(options, "threads")),
    ...given("backend", backend as BackendName | undefined),
    ...given("variant", variant as string | undefined),
    hub: { onProgress: showProgress },
  });
}

/** One line on a terminal's standard error for each file that is fetched. */
function showProgress({ file, bytes, size }: { file: string; bytes: number; size: number }): void {
  if (!process.stderr.isTTY) return;
  const cells = 30;
  const full = size === 0 ? cells : Math.floor((bytes / size) * cells);
  const line = `${"█".repeat(full)}${"░".repeat(cells - full)} ${bytesText(bytes)} of ${bytesText(size)}  ${file}`;
  process.stderr.write(`\r\x1b[K${line}${bytes === size ? "\n" : ""}`);
}

/** The options of a generation. */
export function generateOptions(options: Options): GenerateOptions {
  return {
    maxTokens: numberOf(options, "max-tokens") ?? 256,
    ...given("temperature", numberOf(options, "temperature")),
    ...given("topK", numberOf(options, "top-k")),
    ...given("topP", numberOf(options, "top-p")),
    ...given("minP", numberOf(options, "min-p")),
    ...given("repetitionPenalty", numberOf(options, "repetition-penalty")),
    ...given("seed", numberOf(options, "seed")),
    ...given("whenFull", options["when-full"] as WhenFull | undefined),
    ...given("stop", options["stop"] as string | undefined),
    ...(options["speculate"] === true ? { speculate: true } : {}),
  };
}

const given = <Name extends string, T>(name: Name, value: T | undefined): Partial<Record<Name, T>> =>
  value === undefined ? {} : ({ [name]: value } as Partial<Record<Name, T>>);

function numberOf(options: Options, name: string): number | undefined {
  const text = options[name];
  if (typeof text !== "string") return undefined;
  const number = text.trim() === "" ? NaN : Number(text);
  if (Number.isNaN(number)) throw new InsituError("invalid-argument", `--${name} must be a number, got "${text}"`);
  return number;
}
