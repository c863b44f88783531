/** The line that closes a generated text: tokens, speed, and what became of the cache bytes. */
import type { GenerationSummary } from "#insitu/generate/generation.js";
import { bytesText } from "#insitu/base/bytes-text.js";
import { textOutput } from "./word-wrap.js";

/** Says it: below the text on a terminal, on standard error where the text goes to a file or a program; in few words where it comes often. */
export function printSummary(summary: GenerationSummary, isShort = false): void {
  const line = isShort && process.stdout.isTTY ? shortText(summary) : summaryText(summary);
  if (!process.stdout.isTTY) return void process.stderr.write(`${line}\n`);
  const output = textOutput();
  output.write(`\n${line}\n`);
}

/** Tokens and speed alone. */
function shortText({ promptTokens, newTokens, tokensPerSecond, finishReason }: GenerationSummary): string {
  const speed = newTokens < 2 ? "" : `, ${tokensPerSecond.toFixed(0)} a second`;
  const end = finishReason === "unfinished" ? ", interrupted" : "";
  return `[${newTokens} tokens${speed}; the conversation has ${promptTokens + newTokens}${end}]`;
}

/** One line about a generation. */
function summaryText(summary: GenerationSummary): string {
  const { promptTokens, reusedTokens, newTokens, finishReason } = summary;
  const read = reusedTokens === 0 ? "" : ` (${reusedTokens} read before)`;
  const parts = [
    `${promptTokens} prompt ${promptTokens === 1 ? "token" : "tokens"}${read}, ${newTokens} new`,
    ...(newTokens === 0 ? [] : [`first token after ${summary.firstTokenMilliseconds.toFixed(0)} ms`]),
    ...(newTokens < 2 ? [] : [`${summary.tokensPerSecond.toFixed(0)} tokens a second`]),
    ...(summary.tokensInFlight === 0
      ? []
      : [
          `drawn on the device, ${summary.tokensInFlight} in flight${summary.discardedTokens === 0 ? "" : `, ${summary.discardedTokens} thrown away`}`,
        ]),
    `caches ${bytesText(summary.stateBytes)}`,
    `written in place ${bytesText(summary.writtenBytes)}`,
    `a runtime that copies its caches would have moved ${bytesText(summary.copyingBytes)}`,
    ...(summary.movedBytes === 0 ? [] : [`moved ${bytesText(summary.movedBytes)}`]),
    ...(summary.guessedTokens === 0
      ? []
      : [`${summary.rightGuesses} of ${summary.guessedTokens} guesses right in ${summary.guessedRuns} runs`]),
    ...(finishReason === "context" ? ["the context is full"] : []),
    ...(finishReason === "unfinished" ? ["interrupted"] : []),
    `seed ${summary.seed}`,
  ];
  return `[${parts.join(" · ")}]`;
}
