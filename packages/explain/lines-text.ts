/** Text of several lines for people. */

/** Lines as one text. A name in them may hold anything: on a terminal its control characters would act, and a break in it would look like a line. */
export const linesText = (lines: readonly string[]): string =>
  lines.map((line) => line.replace(/\p{Cc}/gu, "·")).join("\n");
